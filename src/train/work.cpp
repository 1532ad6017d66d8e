// Comes in: micro-batches [B, T] (where the kernels run), one action of the schedule at a time, with its slots.
// Goes out: losses (not scaled) in engine.sums; boundaries in the stage's memory; gradients in optim/units.
// Next: model/stage.cpp
#include "src/train/work.h"

#include "src/train/pass_graphs.h"

namespace ogrom {

template <class T>
ModelWork<T>::ModelWork(Engine<T>& engine, std::span<const BatchView> batches, const typename Stage<T>::StepInfo& info,
                        Passes passes)
    : engine_(engine), batches_(batches), info_(info), passes_(passes) {}

template <class T>
const BatchView& ModelWork<T>::batch_of(const Action& action) const {
    OGROM_ASSERT(action.micro_batch >= 0 && action.micro_batch < static_cast<i64>(batches_.size()));
    return batches_[static_cast<std::size_t>(action.micro_batch)];
}

template <class T>
typename Stage<T>::StepInfo ModelWork<T>::info_of(const Action& action) const {
    typename Stage<T>::StepInfo info = info_;
    info.loss_sum = engine_.sums.loss(action.micro_batch);
    return info;
}

template <class T>
void ModelWork<T>::enqueue(const Action& action, const typename Stage<T>::StepInfo& info) {
    const BatchView& batch = batch_of(action);
    Stage<T>& stage = engine_.stage;
    switch (action.kind) {
        case ActionKind::forward:
            return stage.forward(engine_.stream, batch, action.chunk, action.slot, info);
        case ActionKind::backward:
            return stage.backward(engine_.stream, batch, action.chunk, action.slot, action.buffer, info);
        case ActionKind::backward_input:
            return stage.backward_input(engine_.stream, batch, action.chunk, action.slot, action.buffer,
                                        action.weight_slot, info);
        case ActionKind::backward_weight:
            return stage.backward_weight(engine_.stream, batch, action.chunk, action.slot, action.weight_slot, info);
        default:
            OGROM_ASSERT(is_compute(action.kind));
    }
}

template <class T>
void ModelWork<T>::run(const Action& action) {
    const bool recorded = passes_ == Passes::training && engine_.graphs != nullptr;
    if (!recorded || !engine_.graphs->launch(engine_, action, batch_of(action))) {
        enqueue(action, info_of(action));
    }
}

template <class T>
void ModelWork<T>::forward(const Action& action) {
    run(action);
    const StageSpan& span = engine_.decisions.shape.spans[static_cast<std::size_t>(action.chunk)];
    if (passes_ == Passes::evaluation && span.heads) {
        engine_.stage.evaluate(engine_.stream, batch_of(action), action.chunk, action.slot,
                               engine_.sums.loss(action.micro_batch));
    }
}

template <class T>
void ModelWork<T>::backward(const Action& action) {
    run(action);
}

template <class T>
void ModelWork<T>::backward_input(const Action& action) {
    run(action);
}

template <class T>
void ModelWork<T>::backward_weight(const Action& action) {
    run(action);
}

template <class T>
Boundary ModelWork<T>::boundary(T* data) const {
    return {data, engine_.stage.boundary_elements(), dtype_of<T>()};
}

template <class T>
Boundary ModelWork<T>::activation_in(const Action& action) {
    return boundary(engine_.stage.activation_in(action.chunk, action.slot));
}

template <class T>
Boundary ModelWork<T>::activation_out(const Action& action) {
    return boundary(engine_.stage.activation_out(action.chunk, action.slot));
}

template <class T>
Boundary ModelWork<T>::gradient(const Action& action) {
    return boundary(engine_.stage.gradient(action.buffer));
}

template <class T>
void ModelWork<T>::hand_over(const Boundary& from, const Boundary& to) {
    OGROM_ASSERT(from.count == to.count && from.type == to.type);
    copy_bytes(engine_.stream, to.data, from.data, from.count * size_of(from.type));
}

template <class T>
void run_schedule(Engine<T>& engine, const StageSchedule& schedule, ModelWork<T>& work) {
    PipelineRun run{work};
    if (engine.mesh.shape.pp > 1) {
        run.forward = engine.mesh.pp_forward.get();
        run.backward = engine.mesh.pp_backward.get();
    }
    run.trace = engine.trace;
    execute(schedule, run);
}

template class ModelWork<float>;
template class ModelWork<double>;
template class ModelWork<Bf16>;
template class ModelWork<Fp16>;
template void run_schedule<float>(Engine<float>&, const StageSchedule&, ModelWork<float>&);
template void run_schedule<double>(Engine<double>&, const StageSchedule&, ModelWork<double>&);
template void run_schedule<Bf16>(Engine<Bf16>&, const StageSchedule&, ModelWork<Bf16>&);
template void run_schedule<Fp16>(Engine<Fp16>&, const StageSchedule&, ModelWork<Fp16>&);

}  // namespace ogrom
