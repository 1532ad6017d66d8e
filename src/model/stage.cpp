// Comes in: BatchView (tokens, targets, mask, segments, positions [B, T]), parameters unit by unit, a slot.
// Goes out: forward: activations of the slot (arena); backward: unmasked losses added to a sum, gradients
// added (unit).
// Next: model/embedding.cpp
#include "src/model/stage.h"

#include <array>
#include <fmt/format.h>

#include "kernels/common/fault.h"

#include "src/model/activations.h"
#include "src/model/bind.h"
#include "src/model/layers.h"

namespace ogrom {

using A = ActivationName;

template <class T>
struct Stage<T>::Impl {
    Impl(const ModelConfig& model_config, const StageShape& stage_shape, const ParameterLayout& layout, Arena& arena,
         UnitSource<T>& unit_source, Communicator* tensor);

    [[nodiscard]] Pass pass_of(const BatchView& batch, const StepInfo& info) const;
    [[nodiscard]] BlockSaved<T> saved_of(const CopyPlace& place) const;
    [[nodiscard]] Workspace<T> workspace_of(Work work, const CopyPlace& place) const;
    [[nodiscard]] Workspace<T> workspace() const { return workspace_of(Work::both, {}); }
    [[nodiscard]] HeadWorkspace<T> head_workspace() const;
    [[nodiscard]] Block<T> block_at(const Unit& unit, const UnitPointers<T>& at, const CopyPlace& place) const;
    [[nodiscard]] CopyPlace place_of(const Unit& unit, i64 slot, i64 weight_slot) const;
    [[nodiscard]] i64 depth(i64 chunk) const;
    [[nodiscard]] T* stream_at(i64 chunk, i64 slot, i64 layer) const {
        return memory.at(A::residual, {.chunk = chunk, .slot = slot, .layer = layer});
    }
    // Calls body(unit, pointers) for each use of the pass, in order.
    template <class Body>
    void for_each_use(i64 chunk, PassKind kind, const Body& body);
    void block_of(Stream stream, const Unit& unit, const UnitPointers<T>& at, Work work, const CopyPlace& place, T* d,
                  const Pass& pass);
    void backward(Stream stream, const BatchView& batch, Work work, CopyPlace place, i64 buffer, const StepInfo& info);

    ModelConfig model;
    StageShape shape;
    const ParameterLayout& layout;
    UnitSource<T>& source;
    TensorGroup group;
    UnitBinder<T> binder;
    ActivationSet<T> memory;
    std::vector<std::array<std::vector<UnitUse>, 5>> uses;  // [chunk][pass kind]
};

template <class T>
Stage<T>::Impl::Impl(const ModelConfig& model_config, const StageShape& stage_shape,
                     const ParameterLayout& stage_layout, Arena& arena, UnitSource<T>& unit_source,
                     Communicator* tensor)
    : model(model_config),
      shape(stage_shape),
      layout(stage_layout),
      source(unit_source),
      group{tensor, shape.tensor.size, shape.tensor.rank, shape.sequence, shape.reduce_order},
      binder(model, layout),
      memory(make_activations(model, shape, dtype_of<T>()), arena) {
    OGROM_ASSERT(group.size == 1 || (tensor != nullptr && tensor->size() == group.size));
    OGROM_ASSERT(layout.part().size == group.size && layout.part().rank == group.rank);
    group.scratch = memory.find(A::tensor_scratch);
    for (const StageSpan& span : shape.spans) {
        auto& of_chunk = uses.emplace_back();
        for (std::size_t kind = 0; kind < of_chunk.size(); ++kind) {
            of_chunk[kind] = unit_uses(layout, span.chunk, static_cast<PassKind>(kind));
        }
    }
}

template <class T>
i64 Stage<T>::Impl::depth(i64 chunk) const {
    const StageSpan& span = shape.spans[static_cast<std::size_t>(chunk)];
    return span.last_layer - span.first_layer;
}

template <class T>
CopyPlace Stage<T>::Impl::place_of(const Unit& unit, i64 slot, i64 weight_slot) const {
    const i64 first = shape.spans[static_cast<std::size_t>(unit.chunk)].first_layer;
    return {unit.chunk, slot, unit.layer - first, weight_slot};
}

// With the memory for products in fp8, where they are made so.
template <class T>
Block<T> Stage<T>::Impl::block_at(const Unit& unit, const UnitPointers<T>& at, const CopyPlace& place) const {
    Block<T> block = binder.block(at, unit.layer);
    if (shape.linears == LinearProducts::fp8) {
        auto* scales = reinterpret_cast<ops::LinearFp8Scales*>(memory.statistic(A::fp8_scales, place));
        for (Linear<T>* linear : {&block.attention.qkv, &block.attention.out, &block.mlp.up, &block.mlp.down}) {
            linear->fp8 = {memory.find(A::fp8_workspace), scales++};
        }
    }
    return block;
}

template <class T>
Pass Stage<T>::Impl::pass_of(const BatchView& batch, const StepInfo& info) const {
    const StageExtents& extents = shape.extents;
    OGROM_ASSERT(batch.B >= 1 && batch.B <= extents.micro_batch && batch.T >= 1 && batch.T <= extents.sequence);
    Pass pass;
    pass.B = batch.B;
    pass.T = pass.part_T = batch.T;
    pass.segments = batch.segments;
    pass.sample = batch.sample;
    pass.seed = info.seed;
    pass.step = static_cast<u32>(info.step);
    pass.step_at = info.step_at;
    pass.loss_scale_at = info.loss_scale_at;
    const bool again = shape.recompute == Recompute::selective || shape.reduce_order == ReduceOrder::fixed;
    pass.gelu = again ? ops::Fusion::never : ops::Fusion::allowed;
    pass.tensor = group;
    pass.progress = [this] { source.progress(); };
    if (group.splits_positions()) {
        require(batch.T % group.size == 0, ExitCode::usage,
                fmt::format("{} positions cannot be split over {} tensor ranks", batch.T, group.size));
        pass.part_T = batch.T / group.size;
        pass.position0 = fault_active("sp_dropout_local_index") ? 0 : pass.part_T * group.rank;
    }
    if (info.training) {
        pass.dropout_embedding = model.dropout_embedding;
        pass.dropout_attention = model.dropout_attention;
        pass.dropout_residual = model.dropout_residual;
    }
    return pass;
}

template <class T>
BlockSaved<T> Stage<T>::Impl::saved_of(const CopyPlace& place) const {
    const auto at = [&](A name) { return memory.at(name, place); };
    const auto statistic = [&](A name) { return memory.statistic(name, place); };
    const i64 layer = shape.spans[static_cast<std::size_t>(place.chunk)].first_layer + place.layer;
    return {at(A::residual),
            at(A::middle),
            {statistic(A::norm1_mean), statistic(A::norm1_rstd), at(A::norm1), at(A::qkv), at(A::attention),
             statistic(A::attention_lse)},
            {statistic(A::norm2_mean), statistic(A::norm2_rstd), at(A::norm2), at(A::up), at(A::gelu)},
            recompute_of(shape, layer)};
}

template <class T>
Workspace<T> Stage<T>::Impl::workspace_of(Work work, const CopyPlace& place) const {
    Workspace<T> space;
    space.branch = reinterpret_cast<T*>(memory.find(A::d_branch));
    space.narrow = memory.at(A::d_narrow);
    space.gathered = reinterpret_cast<T*>(memory.find(A::gathered));
    space.attention = memory.statistic(A::attention_workspace);
    if (work == Work::both) {
        space.attention_gradients = space.mlp_gradients = {nullptr, memory.at(A::d_wide)};
    } else {
        space.attention_gradients = {memory.at(A::kept_d_attention, place), memory.at(A::kept_d_qkv, place)};
        space.mlp_gradients = {memory.at(A::kept_d_mlp, place), memory.at(A::kept_d_up, place)};
    }
    return space;
}

template <class T>
HeadWorkspace<T> Stage<T>::Impl::head_workspace() const {
    // The sums are in double whatever T is: their row of the table has the bytes for it.
    return {memory.statistic(A::final_mean), memory.statistic(A::final_rstd), memory.at(A::logits),
            reinterpret_cast<StatisticOf<T>*>(memory.find(A::head_max)),
            reinterpret_cast<double*>(memory.find(A::head_sums))};
}

template <class T>
template <class Body>
void Stage<T>::Impl::for_each_use(i64 chunk, PassKind kind, const Body& body) {
    OGROM_ASSERT(chunk >= 0 && chunk < static_cast<i64>(uses.size()));
    for (const UnitUse& use : uses[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(kind)]) {
        const UnitPointers<T> at = source.acquire(use.unit, use.use);
        body(layout.units()[static_cast<std::size_t>(use.unit)], at);
        source.release(use.unit, use.use);
    }
}

template <class T>
void Stage<T>::forward(Stream stream, const BatchView& batch, i64 chunk, i64 slot, const StepInfo& info) {
    Impl& my = *impl_;
    const Pass pass = my.pass_of(batch, info);
    const Workspace<T> workspace = my.workspace();
    my.for_each_use(chunk, PassKind::forward, [&](const Unit& unit, const UnitPointers<T>& at) {
        if (unit.kind == UnitKind::embedding) {
            embedding_forward(stream, my.binder.embedding(at), my.stream_at(chunk, slot, 0), batch.tokens,
                              batch.positions, workspace, pass);
            return;
        }
        const CopyPlace place = my.place_of(unit, slot, -1);
        block_forward(stream, my.block_at(unit, at, place), my.stream_at(chunk, slot, place.layer + 1),
                      my.saved_of(place), workspace, pass);
    });
}

// Backward of one block. The input half of a split pass keeps the gradients of norms and row biases beside: the unit's
// own are not at hand until the weight half.
template <class T>
void Stage<T>::Impl::block_of(Stream stream, const Unit& unit, const UnitPointers<T>& at, Work work,
                              const CopyPlace& place, T* d, const Pass& pass) {
    Block<T> block = block_at(unit, at, place);
    if (work == Work::input) {
        write_beside(stream, block, memory.statistic(A::kept_d_small, place));
    }
    block_backward(stream, block, work, d, saved_of(place), workspace_of(work, place), pass);
    if (work == Work::weights) {
        add_from_beside(stream, block, memory.statistic(A::kept_d_small, place));
    }
}

template <class T>
void Stage<T>::Impl::backward(Stream stream, const BatchView& batch, Work work, CopyPlace place, i64 buffer,
                              const StepInfo& info) {
    const Pass pass = pass_of(batch, info);
    T* const d = memory.at(A::d_residual, {.slot = buffer});
    const PassKind kind = work == Work::both ? PassKind::backward : PassKind::backward_input;
    for_each_use(place.chunk, kind, [&](const Unit& unit, const UnitPointers<T>& at) {
        if (unit.kind == UnitKind::head) {
            OGROM_ASSERT(info.loss_sum != nullptr);
            head_backward<T>(stream, binder.head(at, shape.extents.logits_rows), info.loss_sum, d,
                             stream_at(place.chunk, place.slot, depth(place.chunk)), head_workspace(), workspace(),
                             batch, info.loss_scale, pass);
        } else if (unit.kind == UnitKind::block) {
            block_of(stream, unit, at, work, place_of(unit, place.slot, place.weight_slot), d, pass);
        } else {
            embedding_backward(stream, binder.embedding(at), d, batch, workspace(), pass);
        }
    });
}

template <class T>
void Stage<T>::backward(Stream stream, const BatchView& batch, i64 chunk, i64 slot, i64 buffer, const StepInfo& info) {
    impl_->backward(stream, batch, Work::both, {.chunk = chunk, .slot = slot}, buffer, info);
}

template <class T>
void Stage<T>::backward_input(Stream stream, const BatchView& batch, i64 chunk, i64 slot, i64 buffer, i64 weight_slot,
                              const StepInfo& info) {
    const CopyPlace place{.chunk = chunk, .slot = slot, .weight_slot = weight_slot};
    impl_->backward(stream, batch, Work::input, place, buffer, info);
}

template <class T>
void Stage<T>::backward_weight(Stream stream, const BatchView& batch, i64 chunk, i64 slot, i64 weight_slot,
                               const StepInfo& info) {
    Impl& my = *impl_;
    const Pass pass = my.pass_of(batch, info);
    my.for_each_use(chunk, PassKind::backward_weight, [&](const Unit& unit, const UnitPointers<T>& at) {
        my.block_of(stream, unit, at, Work::weights, my.place_of(unit, slot, weight_slot), nullptr, pass);
    });
}

template <class T>
void Stage<T>::evaluate(Stream stream, const BatchView& batch, i64 chunk, i64 slot, double* loss_sum) {
    Impl& my = *impl_;
    StepInfo info;
    info.training = false;
    const Pass pass = my.pass_of(batch, info);
    for (const UnitUse& use : my.uses[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(PassKind::evaluate)]) {
        if (my.layout.units()[static_cast<std::size_t>(use.unit)].kind == UnitKind::head) {
            const UnitPointers<T> at = my.source.acquire(use.unit, use.use);
            OGROM_ASSERT(loss_sum != nullptr);
            head_evaluate<T>(stream, my.binder.head(at, my.shape.extents.logits_rows), loss_sum,
                             my.stream_at(chunk, slot, my.depth(chunk)), my.head_workspace(), my.workspace(), batch,
                             pass);
            my.source.release(use.unit, use.use);
        }
    }
}

template <class T>
i64 Stage<T>::boundary_elements() const {
    const StageExtents& extents = impl_->shape.extents;
    const i64 positions = extents.sequence / (impl_->group.splits_positions() ? impl_->group.size : 1);
    return extents.micro_batch * positions * impl_->model.hidden;
}
template <class T>
T* Stage<T>::activation_in(i64 chunk, i64 slot) const {
    return impl_->stream_at(chunk, slot, 0);
}
template <class T>
T* Stage<T>::activation_out(i64 chunk, i64 slot) const {
    return impl_->stream_at(chunk, slot, impl_->depth(chunk));
}
template <class T>
T* Stage<T>::gradient(i64 buffer) const {
    return impl_->memory.at(A::d_residual, {.slot = buffer});
}

template <class T>
void Stage<T>::declare(Ledger& ledger, const ModelConfig& model, const StageShape& shape) {
    for (const Activation& row : make_activations(model, shape, dtype_of<T>())) {
        ledger.add(row.name, Tier::device, row.bytes(), row.formula());
    }
}

template <class T>
Stage<T>::Stage(const ModelConfig& model, const StageShape& shape, const ParameterLayout& layout, Arena& arena,
                UnitSource<T>& source, Communicator* tensor)
    : impl_(std::make_unique<Impl>(model, shape, layout, arena, source, tensor)) {}

template <class T>
Stage<T>::~Stage() = default;

template class Stage<float>;
template class Stage<double>;
template class Stage<Bf16>;
template class Stage<Fp16>;

}  // namespace ogrom
