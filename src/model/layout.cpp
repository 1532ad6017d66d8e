// This rank's flat buffer: from the parameter table, the layers of its chunks and its place on the tensor axis.
#include <algorithm>
#include <fmt/format.h>

#include "kernels/common/error.h"

#include "src/model/parameters.h"

namespace ogrom {
namespace {

// The head side carries the number of layers as its layer.
i64 layers_of(const ParameterTable& table) {
    i64 layers = 0;
    for (const Parameter& row : table.rows()) {
        layers = std::max(layers, row.layer);
    }
    return layers;
}

// A tied head on the embedding's stage reads the table itself: its row is held only where that one is not.
bool holds(const StageSpan& span, const Parameter& row, i64 layers, bool stage_embeds) {
    if (row.layer < 0) {
        return span.embeds;
    }
    if (row.layer == layers) {
        return span.heads && (row.tie.empty() || !stage_embeds);
    }
    return row.layer >= span.first_layer && row.layer < span.last_layer;
}

// Part `part` of a tensor: rows or columns [rank, rank + 1) / size of the stored ones.
LocalTensor cut(const Parameter& row, TensorPart part, i64 offset) {
    LocalTensor local;
    local.parameter = &row;
    local.offset = offset;
    local.shape = row.padded_shape;
    i64 logical_rows = row.shape[0];
    if (row.tensor_axis >= 0 && part.size > 1) {
        i64& extent = local.shape[static_cast<std::size_t>(row.tensor_axis)];
        require(extent % part.size == 0, ExitCode::usage,
                fmt::format("{}: extent {} of axis {} cannot be split over parallel.tensor = {} ranks", row.name,
                            extent, row.tensor_axis, part.size));
        extent /= part.size;
        if (row.tensor_axis == 0) {
            local.row0 = extent * part.rank;
            logical_rows = std::clamp<i64>(row.shape[0] - local.row0, 0, extent);
        } else {
            local.col0 = extent * part.rank;
        }
    }
    local.count = local.shape[0] * local.cols();
    local.logical = logical_rows * local.cols();
    return local;
}

}  // namespace

i64 LocalTensor::global_index(i64 i) const {
    const i64 mine = cols();
    const i64 whole = parameter->shape.size() > 1 ? parameter->shape[1] : 1;
    return (row0 + i / mine) * whole + col0 + i % mine;
}

i64 Unit::count() const {
    i64 n = 0;
    for (const FlatRange& range : weights) {
        n += range.count();
    }
    return n;
}

ParameterLayout::ParameterLayout(const ParameterTable& table, std::span<const StageSpan> spans, TensorPart part)
    : table_(table.rows()), part_(part) {
    const bool embeds = std::any_of(spans.begin(), spans.end(), [](const StageSpan& span) { return span.embeds; });
    const bool heads = std::any_of(spans.begin(), spans.end(), [](const StageSpan& span) { return span.heads; });
    const i64 layers = layers_of(table);
    for (const StageSpan& span : spans) {
        for (const Parameter& row : table.rows()) {
            if (holds(span, row, layers, embeds)) {
                tensors_.push_back(cut(row, part, size_));
                size_ += tensors_.back().count;
            }
        }
    }
    gradient_size_ = size_;
    const auto tied =
        std::find_if(table.rows().begin(), table.rows().end(), [](const Parameter& row) { return !row.tie.empty(); });
    if (tied != table.rows().end() && (embeds || heads)) {
        const LocalTensor& held = tensor(embeds ? tied->tie : tied->name);
        tied_table_ = {held.offset, held.offset + held.count};
        gradient_size_ += embeds && heads ? held.count : 0;
    }
    for (const StageSpan& span : spans) {
        add_units(span);
    }
}

// The tensors of a span stand one after another: embedding, blocks, head.
void ParameterLayout::add_units(const StageSpan& span) {
    const auto range_of = [&](const auto& belongs) {
        FlatRange range{size_, 0};
        for (const LocalTensor& tensor : tensors_) {
            if (belongs(*tensor.parameter)) {
                range = {std::min(range.first, tensor.offset), tensor.offset + tensor.count};
            }
        }
        return range;
    };
    if (span.embeds) {
        const FlatRange range = range_of([](const Parameter& row) { return row.layer < 0; });
        units_.push_back({UnitKind::embedding, span.chunk, -1, {range}, {range}});
    }
    for (i64 layer = span.first_layer; layer < span.last_layer; ++layer) {
        const FlatRange range = range_of([&](const Parameter& row) { return row.layer == layer; });
        units_.push_back({UnitKind::block, span.chunk, layer, {range}, {range}});
    }
    if (span.heads) {
        const i64 head_layer = tensors_.back().parameter->layer;
        const FlatRange range = range_of([&](const Parameter& row) { return row.layer == head_layer; });
        units_.push_back({UnitKind::head, span.chunk, head_layer, {range}, {range}});
        if (gradient_size_ > size_) {
            units_.back().weights.push_back(tied_table_);
            units_.back().gradients.push_back({size_, gradient_size_});
        }
    }
}

const LocalTensor& ParameterLayout::tensor(std::string_view name) const {
    const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                    [&](const LocalTensor& tensor) { return tensor.parameter->name == name; });
    if (found == tensors_.end()) {
        fail(ExitCode::checkpoint, fmt::format("this rank holds no parameter named \"{}\"", name));
    }
    return *found;
}

bool ParameterLayout::replicated(const LocalTensor& tensor) const {
    return part_.size > 1 && tensor.parameter->tensor_axis < 0;
}

}  // namespace ogrom
