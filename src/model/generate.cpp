// Comes in: token ids (host); weights in the flat buffer. Goes out: logits [vocab] of the token after them (own
// memory). The cache of a layer is the packed q | k | v rows of all positions so far: the product writes a new
// position's row behind the earlier ones, and attention reads keys and values in place. Outside training, so its memory
// is its own: cache L sequence (H + 2 K) D, and workspaces of at most `prefill_rows` rows. Next: back to
// commands/sample.cpp
#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "kernels/ops/attention.h"

#include "src/model/bind.h"
#include "src/model/stage.h"

namespace ogrom {
namespace {

constexpr i64 prefill_rows = 256;  // tokens of a prompt that go through the layers at once

}  // namespace

template <class T>
struct Generator<T>::Impl {
    Impl(const ModelConfig& model_config, const ParameterLayout& layout, std::span<const T> weights, int threads);
    void feed_rows(const std::int32_t* tokens, i64 n);
    BlockSaved<T> saved_of(i64 layer, i64 first);

    ModelConfig model;
    Embedding<T> embedding;
    std::vector<Block<T>> blocks;
    Head<T> head;
    Workspace<T> space;
    i64 position = 0;  // tokens fed so far
    i64 qkv_columns = 0;
    std::vector<T> cache;  // [L, sequence, (H + 2 K) D]
    std::vector<T> stream_in, stream_out, middle, norm, attention, up, gelu, workspace, logits;
    std::vector<std::int32_t> positions;
};

template <class T>
Generator<T>::Impl::Impl(const ModelConfig& model_config, const ParameterLayout& layout, std::span<const T> weights,
                         int threads)
    : model(model_config) {
    OGROM_ASSERT(static_cast<i64>(weights.size()) == layout.size());
    const UnitBinder<T> binder(model, layout);
    for (const Unit& unit : layout.units()) {
        const UnitPointers<T> at = pointers_in<T>(unit, weights.data(), nullptr);
        if (unit.kind == UnitKind::embedding) {
            embedding = binder.embedding(at);
        } else if (unit.kind == UnitKind::head) {
            head = binder.head(at, 1);
        } else {
            blocks.push_back(binder.block(at, unit.layer));
        }
    }
    const i64 rows = std::min(prefill_rows, model.sequence);
    qkv_columns = (model.heads + 2 * model.kv_heads) * model.head_dim;
    const auto elements = [](i64 n) { return static_cast<std::size_t>(n); };
    cache.resize(elements(model.layers * model.sequence * qkv_columns));
    for (std::vector<T>* buffer : {&stream_in, &stream_out, &middle, &norm}) {
        buffer->resize(elements(rows * model.hidden));
    }
    attention.resize(elements(rows * model.heads * model.head_dim));
    up.resize(elements(rows * model.ffn_hidden));
    gelu.resize(elements(rows * model.ffn_hidden));
    logits.resize(elements(model.padded_vocab));
    positions.resize(elements(rows));
    ops::AttentionShape shape{};
    shape.batch = 1;
    shape.queries = rows;
    shape.keys = model.sequence;
    shape.heads = shape.heads_total = model.heads;
    shape.kv_heads = model.kv_heads;
    shape.head_dim = model.head_dim;
    workspace.resize(elements(ops::attention_workspace(shape, threads)));
    space.attention = workspace.data();
}

template <class T>
BlockSaved<T> Generator<T>::Impl::saved_of(i64 layer, i64 first) {
    T* const packed = cache.data() + (layer * model.sequence + first) * qkv_columns;
    return {stream_in.data(),
            middle.data(),
            {nullptr, nullptr, norm.data(), packed, attention.data(), nullptr},
            {nullptr, nullptr, norm.data(), up.data(), gelu.data()}};
}

// n <= prefill_rows tokens through all layers; their rows join the cache.
template <class T>
void Generator<T>::Impl::feed_rows(const std::int32_t* tokens, i64 n) {
    const Stream stream;
    Pass pass;
    pass.B = 1;
    pass.T = pass.part_T = n;
    pass.past = position;
    for (i64 i = 0; i < n; ++i) {
        positions[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(position + i);
    }
    embedding_forward(stream, embedding, stream_in.data(), tokens, positions.data(), space, pass);
    for (i64 layer = 0; layer < model.layers; ++layer) {
        block_forward(stream, blocks[static_cast<std::size_t>(layer)], stream_out.data(), saved_of(layer, position),
                      space, pass);
        std::swap(stream_in, stream_out);
    }
    position += n;
}

template <class T>
std::span<const T> Generator<T>::feed(std::span<const std::int32_t> tokens) {
    Impl& my = *impl_;
    const i64 n = static_cast<i64>(tokens.size());
    OGROM_ASSERT(n >= 1);
    require(my.position + n <= my.model.sequence, ExitCode::usage,
            fmt::format("{} tokens after {} exceed the model's sequence of {}", n, my.position, my.model.sequence));
    for (const std::int32_t token : tokens) {
        require(token >= 0 && token < my.model.vocab, ExitCode::usage,
                fmt::format("token {} is outside the vocabulary of {}", token, my.model.vocab));
    }
    i64 last_rows = 0;
    for (i64 first = 0; first < n; first += last_rows) {
        last_rows = std::min(prefill_rows, n - first);
        my.feed_rows(tokens.data() + first, last_rows);
    }
    // Only the last position's logits are asked for.
    const T* last_row = my.stream_in.data() + (last_rows - 1) * my.model.hidden;
    norm_forward<T>({}, my.head.norm, my.norm.data(), nullptr, nullptr, last_row, 1);
    head_logits<T>({}, my.head, my.logits.data(), my.norm.data(), 1);
    return {my.logits.data(), static_cast<std::size_t>(my.model.vocab)};
}

template <class T>
void Generator<T>::reset() {
    impl_->position = 0;
}

template <class T>
Generator<T>::Generator(const ModelConfig& model, const ParameterLayout& layout, std::span<const T> weights,
                        int threads)
    : impl_(std::make_unique<Impl>(model, layout, weights, threads)) {}

template <class T>
Generator<T>::~Generator() = default;

template class Generator<float>;
template class Generator<double>;

}  // namespace ogrom
