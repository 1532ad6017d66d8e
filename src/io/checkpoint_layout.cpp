#include "src/io/checkpoint_layout.h"

#include <algorithm>

#include "src/base/error.h"

namespace ogrom {

std::vector<LogicalTensor> logical_tensors(const ParameterLayout& layout) {
    std::vector<LogicalTensor> tensors;
    i64 first = 0;
    for (const LocalTensor& local : layout.tensors()) {
        const Parameter& parameter = *local.parameter;
        if (!parameter.tie.empty()) {
            continue;
        }
        // Only whole rows are padding, so a tensor's logical elements are the first ones of its storage.
        OGROM_ASSERT(local.shape.size() == parameter.shape.size() && !parameter.shape.empty());
        OGROM_ASSERT(std::equal(local.shape.begin() + 1, local.shape.end(), parameter.shape.begin() + 1));
        OGROM_ASSERT(local.shape[0] >= parameter.shape[0]);
        tensors.push_back(
            {parameter.name, parameter.id, parameter.shape, first, parameter.count(), local.offset, local.count});
        first += parameter.count();
    }
    return tensors;
}

i64 logical_count(const std::vector<LogicalTensor>& tensors) {
    return tensors.empty() ? 0 : tensors.back().first + tensors.back().count;
}

FlatRange writer_range(i64 total, int writer, int writers) {
    // total / n and the remainder apart: total * writer could pass 2^63.
    const i64 each = total / writers, rest = total % writers;
    const auto bound = [&](i64 w) { return each * w + rest * w / writers; };
    return {bound(writer), bound(i64{writer} + 1)};
}

std::vector<Overlap> overlaps(const std::vector<LogicalTensor>& tensors, FlatRange range) {
    std::vector<Overlap> result;
    auto tensor = std::partition_point(tensors.begin(), tensors.end(), [&](const LogicalTensor& candidate) {
        return candidate.first + candidate.count <= range.first;
    });
    for (; tensor != tensors.end() && tensor->first < range.last; ++tensor) {
        const i64 first = std::max(range.first, tensor->first);
        const i64 last = std::min(range.last, tensor->first + tensor->count);
        if (first < last) {
            result.push_back(
                {tensor - tensors.begin(), first - tensor->first, last - tensor->first, first - range.first});
        }
    }
    return result;
}

std::vector<TensorBlock> row_blocks(i64 cols, i64 first, i64 last) {
    std::vector<TensorBlock> blocks;
    i64 at = first;
    if (at % cols != 0) {
        const i64 end = std::min(last, round_up(at, cols));
        blocks.push_back({at / cols, at % cols, 1, end - at, 0});
        at = end;
    }
    if (const i64 rows = (last - at) / cols; rows > 0) {
        blocks.push_back({at / cols, 0, rows, cols, at - first});
        at += rows * cols;
    }
    if (at < last) {
        blocks.push_back({at / cols, 0, 1, last - at, at - first});
    }
    return blocks;
}

}  // namespace ogrom
