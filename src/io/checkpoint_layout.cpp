#include "src/io/checkpoint_layout.h"

#include <algorithm>

#include "kernels/common/fault.h"

#include "src/base/error.h"

namespace ogrom {

namespace {

// Logical elements [first, last) of a local tensor, at `source`, appended as pieces of tensor `id`.
void append(std::vector<TensorPiece>& list, const LocalTensor& tensor, i64 id, FlatRange local, i64 source) {
    for (TensorPiece block : row_blocks(tensor.cols(), local.first, local.last)) {
        block.tensor = id;
        block.row += tensor.row0;
        block.col += fault_active("piece_column_ignored") ? 0 : tensor.col0;
        block.source += source;
        list.push_back(block);
    }
}

bool saved_here(const ParameterLayout& layout, const LocalTensor& tensor) {
    const bool copy = !tensor.parameter->tie.empty() && !fault_active("tied_copy_saved");
    const bool elsewhere = layout.replicated(tensor) && layout.part().rank != 0;
    return !copy && !elsewhere;
}

}  // namespace

TensorExtent extent_of(const Parameter& tensor) {
    OGROM_ASSERT(tensor.shape.size() == 1 || tensor.shape.size() == 2);
    return {tensor.shape[0], tensor.shape.size() == 1 ? 1 : tensor.shape[1]};
}

std::vector<TensorPiece> pieces(const ParameterLayout& layout, FlatRange range, Copies copies) {
    std::vector<TensorPiece> list;
    const std::span<const LocalTensor> tensors = layout.tensors();
    auto tensor = std::partition_point(tensors.begin(), tensors.end(), [&](const LocalTensor& candidate) {
        return candidate.offset + candidate.count <= range.first;
    });
    for (; tensor != tensors.end() && tensor->offset < range.last; ++tensor) {
        const FlatRange local{std::max(range.first - tensor->offset, i64{0}),
                              std::min(range.last - tensor->offset, tensor->logical)};
        if (local.first < local.last && (copies == Copies::all || saved_here(layout, *tensor))) {
            const bool saving = copies == Copies::once;
            const i64 id = saving ? tensor->parameter->id : stored_tensor(layout.table(), *tensor->parameter);
            append(list, *tensor, id, local, tensor->offset + local.first - range.first);
        }
    }
    return list;
}

i64 stored_tensor(std::span<const Parameter> table, const Parameter& row) {
    if (row.tie.empty()) {
        return row.id;
    }
    const auto source =
        std::find_if(table.begin(), table.end(), [&](const Parameter& candidate) { return candidate.name == row.tie; });
    OGROM_ASSERT(source != table.end());
    return source->id;
}

FlatRange writer_range(i64 total, int writer, int writers) {
    // total / n and the remainder apart: total * writer could pass 2^63.
    const i64 each = total / writers, rest = total % writers;
    const auto bound = [&](i64 w) { return each * w + rest * w / writers; };
    return {bound(writer), bound(i64{writer} + 1)};
}

std::vector<TensorPiece> row_blocks(i64 cols, i64 first, i64 last) {
    std::vector<TensorPiece> blocks;
    i64 at = first;
    if (at % cols != 0) {
        const i64 end = std::min(last, round_up(at, cols));
        blocks.push_back({0, at / cols, at % cols, 1, end - at, 0});
        at = end;
    }
    if (const i64 rows = (last - at) / cols; rows > 0) {
        blocks.push_back({0, at / cols, 0, rows, cols, at - first});
        at += rows * cols;
    }
    if (at < last) {
        blocks.push_back({0, at / cols, 0, 1, last - at, at - first});
    }
    return blocks;
}

std::vector<FlatRange> remainder(FlatRange range, std::vector<FlatRange> taken) {
    std::sort(taken.begin(), taken.end(), [](FlatRange a, FlatRange b) { return a.first < b.first; });
    std::vector<FlatRange> left;
    i64 at = range.first;
    for (const FlatRange& other : taken) {
        if (other.first > at && at < range.last) {
            left.push_back({at, std::min(other.first, range.last)});
        }
        at = std::max(at, other.last);
    }
    if (at < range.last) {
        left.push_back({at, range.last});
    }
    return left;
}

}  // namespace ogrom
