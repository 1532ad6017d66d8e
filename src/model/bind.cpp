// Binds the layers of a stage to this rank's flat weights and gradients, by the names of the parameter table.
#include <fmt/format.h>

#include "src/model/layers.h"

namespace ogrom {
namespace {

template <class T>
class Binder {
public:
    Binder(const ModelConfig& model, const ParameterLayout& layout, std::span<const T> weights, std::span<T> gradients)
        : model_(model), layout_(layout), weights_(weights), gradients_(gradients) {
        OGROM_ASSERT(static_cast<i64>(weights.size()) == layout.size());
        OGROM_ASSERT(gradients.empty() || gradients.size() == weights.size());
    }
    [[nodiscard]] i64 offset(const std::string& name) const { return layout_.tensor(name).offset; }
    [[nodiscard]] i64 end(const std::string& name) const {
        const LocalTensor& tensor = layout_.tensor(name);
        return tensor.offset + tensor.count;
    }
    // First element behind layer `prefix`'s last tensor (its bias where there is one).
    [[nodiscard]] i64 layer_end(const std::string& prefix) const {
        return end(prefix + (model_.bias ? ".bias" : ".weight"));
    }
    [[nodiscard]] const T* weight(const std::string& name) const { return weights_.data() + offset(name); }
    [[nodiscard]] T* gradient(const std::string& name) const {
        return gradients_.empty() ? nullptr : gradients_.data() + offset(name);
    }
    [[nodiscard]] Norm<T> norm(const std::string& prefix) const {
        Norm<T> norm{weight(prefix + ".weight"), nullptr, gradient(prefix + ".weight"), nullptr, model_.hidden,
                     model_.norm_epsilon};
        if (model_.bias) {
            norm.beta = weight(prefix + ".bias");
            norm.d_beta = gradient(prefix + ".bias");
        }
        return norm;
    }
    // `rows` outputs starting with those of `prefix`: more than its own where the next layers' rows are adjacent.
    [[nodiscard]] Linear<T> linear(const std::string& prefix, i64 rows, i64 columns) const {
        Linear<T> linear{weight(prefix + ".weight"), nullptr, gradient(prefix + ".weight"), nullptr, rows, columns};
        if (model_.bias) {
            linear.bias = weight(prefix + ".bias");
            linear.d_bias = gradient(prefix + ".bias");
        }
        return linear;
    }

private:
    const ModelConfig& model_;
    const ParameterLayout& layout_;
    std::span<const T> weights_;
    std::span<T> gradients_;
};

template <class T>
Block<T> bind_block(const Binder<T>& bind, const ModelConfig& model, i64 layer) {
    const std::string prefix = fmt::format("block.{}.", layer);
    const i64 query_columns = model.heads * model.head_dim;
    const i64 qkv_columns = query_columns + 2 * model.kv_heads * model.head_dim;
    Block<T> block;
    block.range = {bind.offset(prefix + "norm1.weight"), bind.layer_end(prefix + "mlp.down")};

    Attention<T>& attention = block.attention;
    attention.layer = layer;
    attention.heads = model.heads;
    attention.kv_heads = model.kv_heads;
    attention.head_dim = model.head_dim;
    attention.norm = bind.norm(prefix + "norm1");
    attention.qkv = bind.linear(prefix + "attention.query", qkv_columns, model.hidden);
    attention.out = bind.linear(prefix + "attention.out", model.hidden, query_columns);
    attention.norm_range = {block.range.first, bind.layer_end(prefix + "attention.value")};
    attention.out_range = {attention.norm_range.last, bind.layer_end(prefix + "attention.out")};
    // One product of q, k and v needs their weights, and their biases, without a gap.
    OGROM_ASSERT(bind.offset(prefix + "attention.query.weight") + qkv_columns * model.hidden ==
                 bind.end(prefix + "attention.value.weight"));

    Mlp<T>& mlp = block.mlp;
    mlp.layer = layer;
    mlp.norm = bind.norm(prefix + "norm2");
    mlp.up = bind.linear(prefix + "mlp.up", model.ffn_hidden, model.hidden);
    mlp.down = bind.linear(prefix + "mlp.down", model.hidden, model.ffn_hidden);
    mlp.up_range = {attention.out_range.last, bind.layer_end(prefix + "mlp.up")};
    mlp.down_range = {mlp.up_range.last, block.range.last};
    return block;
}

}  // namespace

template <class T>
StageLayers<T> bind_layers(const ModelConfig& model, const StageSpan& span, const ParameterLayout& layout,
                           std::span<const T> weights, std::span<T> gradients) {
    require(span.embeds && span.heads && span.first_layer == 0 && span.last_layer == model.layers, ExitCode::usage,
            "a stage with a part of the layers is not built yet: set parallel.pipeline = 1");
    const Binder<T> bind(model, layout, weights, gradients);
    const std::string token = "embedding.token.weight";
    const std::string position = "embedding.position.weight";
    StageLayers<T> layers;
    layers.embedding = {bind.weight(token),
                        bind.weight(position),
                        bind.gradient(token),
                        bind.gradient(position),
                        model.hidden,
                        model.vocab,
                        {bind.offset(token), bind.end(position)}};
    for (i64 layer = span.first_layer; layer < span.last_layer; ++layer) {
        layers.blocks.push_back(bind_block(bind, model, layer));
    }
    const std::string table = model.tied ? token : "head.weight";
    Head<T>& head = layers.head;
    head.norm = bind.norm("final_norm");
    head.table = bind.weight(table);
    head.d_table = bind.gradient(table);
    head.C = model.hidden;
    head.vocab = model.vocab;
    head.padded_vocab = model.padded_vocab;
    head.norm_range = {bind.offset("final_norm.weight"), bind.layer_end("final_norm")};
    if (!model.tied) {
        head.table_range = {bind.offset(table), bind.end(table)};
    }
    return layers;
}

template StageLayers<float> bind_layers<float>(const ModelConfig&, const StageSpan&, const ParameterLayout&,
                                               std::span<const float>, std::span<float>);
template StageLayers<double> bind_layers<double>(const ModelConfig&, const StageSpan&, const ParameterLayout&,
                                                 std::span<const double>, std::span<double>);

}  // namespace ogrom
