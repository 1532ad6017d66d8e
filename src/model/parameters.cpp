#include "src/model/parameters.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

#include "kernels/common/error.h"

namespace ogrom {
namespace {

i64 product(const std::vector<i64>& extents) {
    i64 n = 1;
    for (const i64 extent : extents) {
        n *= extent;
    }
    return n;
}

void refuse_unbuilt(const ModelConfig& model) {
    require(model.norm == NormKind::layer, ExitCode::usage, "model.norm = \"rms\" is not built yet; use \"layer\"");
    require(model.position == PositionKind::learned, ExitCode::usage,
            "model.position other than \"learned\" is not built yet");
    require(model.mlp == MlpKind::gelu, ExitCode::usage, "model.mlp = \"swiglu\" is not built yet; use \"gelu\"");
    const bool positive = model.layers > 0 && model.hidden > 0 && model.heads > 0 && model.kv_heads > 0 &&
                          model.head_dim > 0 && model.ffn_hidden > 0 && model.vocab > 0 && model.sequence > 0;
    require(positive, ExitCode::usage,
            fmt::format("model: layers {}, hidden {}, heads {}, kv_heads {}, head_dim {}, ffn_hidden {}, vocab {}, "
                        "sequence {}: each must be at least 1",
                        model.layers, model.hidden, model.heads, model.kv_heads, model.head_dim, model.ffn_hidden,
                        model.vocab, model.sequence));
    require(model.heads % model.kv_heads == 0, ExitCode::usage,
            fmt::format("model.heads = {} is not a multiple of model.kv_heads = {}", model.heads, model.kv_heads));
    require(model.padded_vocab >= model.vocab, ExitCode::usage,
            fmt::format("model.padded_vocab = {} is below model.vocab = {}", model.padded_vocab, model.vocab));
}

// Writes the rows of the table in the order of the forward pass.
class Writer {
public:
    Writer(const ModelConfig& model, Dtype storage) : model_(model), storage_(storage) {}

    // Norm gains and biases: one dimension, no decay.
    void vector(const std::string& name, i64 extent, i64 layer, ParameterGroup group, Initial initial) {
        Parameter row = start(name, {extent}, layer);
        row.group = group;
        row.decay_factor = 0;
        row.initial = initial;
        rows_.push_back(std::move(row));
    }
    void matrix(const std::string& name, i64 out, i64 in, i64 layer, int tensor_axis, double std) {
        Parameter row = start(name, {out, in}, layer);
        row.tensor_axis = tensor_axis;
        row.initial_std = std;
        rows_.push_back(std::move(row));
    }
    void table(const std::string& name, i64 rows, i64 stored_rows, i64 layer, int tensor_axis, ParameterGroup group) {
        Parameter row = start(name, {rows, model_.hidden}, layer);
        row.padded_shape = {stored_rows, model_.hidden};
        row.tensor_axis = tensor_axis;
        row.group = group;
        row.initial_std = model_.init_std;
        rows_.push_back(std::move(row));
    }
    void norm(const std::string& name, i64 layer) {
        vector(name + ".weight", model_.hidden, layer, ParameterGroup::norm, Initial::ones);
        bias(name, model_.hidden, layer, -1, ParameterGroup::norm);
    }
    void bias(const std::string& name, i64 extent, i64 layer, int tensor_axis, ParameterGroup group) {
        if (model_.bias) {
            vector(name + ".bias", extent, layer, group, Initial::zeros);
            rows_.back().tensor_axis = tensor_axis;
        }
    }
    // The last row is a copy of an earlier one: its values, its settings.
    void tie_last_to(const std::string& source) {
        Parameter& copy = rows_.back();
        const auto found =
            std::find_if(rows_.begin(), rows_.end(), [&](const Parameter& row) { return row.name == source; });
        copy.tie = source;
        copy.key = found->key;
        copy.group = found->group;
    }
    std::vector<Parameter> finish() { return std::move(rows_); }

private:
    Parameter start(const std::string& name, std::vector<i64> shape, i64 layer) {
        Parameter row;
        row.id = row.key = static_cast<i64>(rows_.size());
        row.name = name;
        row.padded_shape = shape;
        row.shape = std::move(shape);
        row.layer = layer;
        row.storage = storage_;
        row.master = row.moment = has_16_bits(storage_) ? Dtype::fp32 : storage_;
        return row;
    }
    const ModelConfig& model_;
    Dtype storage_;
    std::vector<Parameter> rows_;
};

void write_block(Writer& writer, const ModelConfig& model, i64 layer) {
    const i64 query = model.heads * model.head_dim;
    const i64 key = model.kv_heads * model.head_dim;
    // The sum of 2 L branches keeps the variance of one (GPT-2).
    const double branch_std = model.init_std / std::sqrt(2.0 * static_cast<double>(model.layers));
    const std::string block = fmt::format("block.{}.", layer);
    const std::string attention = block + "attention.";
    writer.norm(block + "norm1", layer);
    // q, k, v adjacent, weights then biases: one product computes all three.
    writer.matrix(attention + "query.weight", query, model.hidden, layer, 0, model.init_std);
    writer.matrix(attention + "key.weight", key, model.hidden, layer, 0, model.init_std);
    writer.matrix(attention + "value.weight", key, model.hidden, layer, 0, model.init_std);
    writer.bias(attention + "query", query, layer, 0, ParameterGroup::bias);
    writer.bias(attention + "key", key, layer, 0, ParameterGroup::bias);
    writer.bias(attention + "value", key, layer, 0, ParameterGroup::bias);
    writer.matrix(attention + "out.weight", model.hidden, query, layer, 1, branch_std);
    writer.bias(attention + "out", model.hidden, layer, -1, ParameterGroup::bias);
    writer.norm(block + "norm2", layer);
    writer.matrix(block + "mlp.up.weight", model.ffn_hidden, model.hidden, layer, 0, model.init_std);
    writer.bias(block + "mlp.up", model.ffn_hidden, layer, 0, ParameterGroup::bias);
    writer.matrix(block + "mlp.down.weight", model.hidden, model.ffn_hidden, layer, 1, branch_std);
    writer.bias(block + "mlp.down", model.hidden, layer, -1, ParameterGroup::bias);
}

}  // namespace

i64 Parameter::count() const {
    return product(shape);
}
i64 Parameter::stored_count() const {
    return product(padded_shape);
}

const Parameter& ParameterTable::row(std::string_view name) const {
    const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Parameter& row) { return row.name == name; });
    if (found == rows_.end()) {
        fail(ExitCode::checkpoint, fmt::format("the model has no parameter named \"{}\"", name));
    }
    return *found;
}

i64 ParameterTable::count() const {
    i64 n = 0;
    for (const Parameter& row : rows_) {
        n += row.tie.empty() && row.kind == ParameterKind::weight ? row.count() : 0;
    }
    return n;
}

ParameterTable make_parameters(const ModelConfig& model, Dtype storage) {
    refuse_unbuilt(model);
    Writer writer(model, storage);
    writer.table("embedding.token.weight", model.vocab, model.padded_vocab, -1, 0, ParameterGroup::embedding);
    writer.table("embedding.position.weight", model.sequence, model.sequence, -1, -1, ParameterGroup::embedding);
    for (i64 layer = 0; layer < model.layers; ++layer) {
        write_block(writer, model, layer);
    }
    writer.norm("final_norm", model.layers);
    writer.table("head.weight", model.vocab, model.padded_vocab, model.layers, 0, ParameterGroup::matrix);
    if (model.tied) {
        writer.tie_last_to("embedding.token.weight");
    }
    return ParameterTable(writer.finish());
}

}  // namespace ogrom
