// Comes in: Batch (tokens, targets, mask, segments, positions [B, T], host), weights in the flat buffer, a slot.
// Goes out: forward: activations of the slot (arena); backward: sum of unmasked losses, gradients added (flat buffer).
// Next: model/embedding.cpp
#include "src/model/stage.h"

#include <algorithm>

#include "src/model/activations.h"
#include "src/model/layers.h"

namespace ogrom {

template <class T>
struct Stage<T>::Impl {
    Impl(const ModelConfig& model_config, const StageSpan& span, const StageExtents& stage_extents,
         const ParameterLayout& layout, Arena& arena, std::span<T> weights, std::span<T> gradients,
         StageHooks stage_hooks)
        : model(model_config),
          extents(stage_extents),
          hooks(std::move(stage_hooks)),
          layers(bind_layers<T>(model, span, layout, weights, gradients)),
          memory(make_activations(model, span, extents, dtype_of<T>()), arena) {
        layers.head.logits_rows = extents.logits_rows;
    }

    [[nodiscard]] Pass pass_of(const Batch& batch, const StepInfo& info) const;
    [[nodiscard]] BlockSaved<T> saved_of(i64 slot, i64 layer) const;
    [[nodiscard]] HeadSaved<T> head_saved_of(i64 slot) const;
    void wanted(const Range& range) const {
        if (hooks.parameters_wanted) {
            hooks.parameters_wanted(range.first, range.last);
        }
    }
    // What the head reads: its norm, and its table when that is its own (the tied one is the embedding's).
    [[nodiscard]] Range head_range() const {
        const Head<T>& head = layers.head;
        return {head.norm_range.first, std::max(head.norm_range.last, head.table_range.last)};
    }
    void forward(Stream stream, const Batch& batch, i64 slot, const Pass& pass);

    ModelConfig model;
    StageExtents extents;
    StageHooks hooks;
    StageLayers<T> layers;
    ActivationSet<T> memory;
};

template <class T>
Pass Stage<T>::Impl::pass_of(const Batch& batch, const StepInfo& info) const {
    const auto n = static_cast<std::size_t>(batch.B * batch.T);
    OGROM_ASSERT(batch.B >= 1 && batch.B <= extents.micro_batch && batch.T >= 1 && batch.T <= extents.sequence);
    OGROM_ASSERT(batch.tokens.size() == n && batch.targets.size() == n && batch.loss_mask.size() == n);
    OGROM_ASSERT(batch.positions.size() == n && (batch.segments.empty() || batch.segments.size() == n));
    OGROM_ASSERT(batch.sample.size() == static_cast<std::size_t>(batch.B));
    Pass pass;
    pass.B = batch.B;
    pass.T = batch.T;
    pass.segments = batch.segments.empty() ? nullptr : batch.segments.data();
    pass.sample = batch.sample.data();
    pass.seed = info.seed;
    pass.step = static_cast<u32>(info.step);
    if (info.training) {
        pass.dropout_embedding = model.dropout_embedding;
        pass.dropout_attention = model.dropout_attention;
        pass.dropout_residual = model.dropout_residual;
    }
    return pass;
}

template <class T>
BlockSaved<T> Stage<T>::Impl::saved_of(i64 slot, i64 layer) const {
    using A = ActivationName;
    const auto at = [&](A name) { return memory.at(name, slot, layer); };
    return {at(A::residual),
            at(A::middle),
            {at(A::norm1_mean), at(A::norm1_rstd), at(A::norm1), at(A::qkv), at(A::attention), at(A::attention_lse)},
            {at(A::norm2_mean), at(A::norm2_rstd), at(A::norm2), at(A::up), at(A::gelu)}};
}

template <class T>
HeadSaved<T> Stage<T>::Impl::head_saved_of(i64 slot) const {
    using A = ActivationName;
    return {memory.at(A::final_mean, slot), memory.at(A::final_rstd, slot), memory.at(A::final_norm, slot),
            memory.at(A::logits)};
}

template <class T>
void Stage<T>::Impl::forward(Stream stream, const Batch& batch, i64 slot, const Pass& pass) {
    using A = ActivationName;
    const i64 depth = static_cast<i64>(layers.blocks.size());
    wanted(layers.embedding.range);
    embedding_forward(stream, layers.embedding, memory.at(A::residual, slot, 0), batch.tokens.data(),
                      batch.positions.data(), pass);
    for (i64 layer = 0; layer < depth; ++layer) {
        const Block<T>& block = layers.blocks[static_cast<std::size_t>(layer)];
        wanted(block.range);
        block_forward(stream, block, memory.at(A::residual, slot, layer + 1), saved_of(slot, layer),
                      memory.at(A::attention_workspace), pass);
    }
    wanted(head_range());
    const HeadSaved<T> saved = head_saved_of(slot);
    norm_forward(stream, layers.head.norm, saved.norm, saved.mean, saved.rstd, memory.at(A::residual, slot, depth),
                 pass.rows());
}

template <class T>
void Stage<T>::forward(Stream stream, const Batch& batch, i64 slot, const StepInfo& info) {
    impl_->forward(stream, batch, slot, impl_->pass_of(batch, info));
}

template <class T>
double Stage<T>::backward(Stream stream, const Batch& batch, i64 slot, const StepInfo& info) {
    using A = ActivationName;
    Impl& my = *impl_;
    const Pass pass = my.pass_of(batch, info);
    const i64 depth = static_cast<i64>(my.layers.blocks.size());
    const Ready ready = [&](const Range& range) {
        if (my.hooks.gradient_ready) {
            my.hooks.gradient_ready(range.first, range.last);
        }
    };
    T* const d = my.memory.at(A::d_residual);
    const Workspace<T> workspace{my.memory.find(A::d_branch), my.memory.at(A::d_narrow), my.memory.at(A::d_wide),
                                 my.memory.at(A::attention_workspace)};
    my.wanted(my.head_range());
    const double loss_sum = head_backward(stream, my.layers.head, d, my.memory.at(A::residual, slot, depth),
                                          my.head_saved_of(slot), batch, info.loss_scale, ready);
    for (i64 layer = depth - 1; layer >= 0; --layer) {
        const Block<T>& block = my.layers.blocks[static_cast<std::size_t>(layer)];
        my.wanted(block.range);
        block_backward(stream, block, d, my.saved_of(slot, layer), workspace, pass, ready);
    }
    embedding_backward(stream, my.layers.embedding, d, batch, pass);
    ready(my.layers.embedding.range);
    return loss_sum;
}

template <class T>
double Stage<T>::evaluate(Stream stream, const Batch& batch) {
    StepInfo info;
    info.training = false;
    impl_->forward(stream, batch, 0, impl_->pass_of(batch, info));
    return head_evaluate(stream, impl_->layers.head, impl_->head_saved_of(0), batch);
}

template <class T>
void Stage<T>::declare(Ledger& ledger, const ModelConfig& model, const StageSpan& span, const StageExtents& extents) {
    for (const Activation& row : make_activations(model, span, extents, dtype_of<T>())) {
        ledger.add(row.name, Tier::device, row.bytes(), row.formula());
    }
}

template <class T>
Stage<T>::Stage(const ModelConfig& model, const StageSpan& span, const StageExtents& extents,
                const ParameterLayout& layout, Arena& arena, std::span<T> weights, std::span<T> gradients,
                StageHooks hooks)
    : impl_(std::make_unique<Impl>(model, span, extents, layout, arena, weights, gradients, std::move(hooks))) {}

template <class T>
Stage<T>::~Stage() = default;

template class Stage<float>;
template class Stage<double>;

}  // namespace ogrom
