#include "src/train/warm_up.h"

#include "src/optim/clip.h"
#include "src/train/work.h"

namespace ogrom {
namespace {

// Forward and loss as an evaluation makes them.
template <class T>
void evaluate_once(Engine<T>& engine, const BatchView& batch, const std::vector<Action>& actions) {
    std::vector<Action> forward;
    for (const Action& action : actions) {
        if (action.kind == ActionKind::forward) {
            forward.push_back(action);
        }
    }
    typename Stage<T>::StepInfo info;
    info.training = false;
    engine.units.begin_step(uses_of(engine.layout, forward, Passes::evaluation));
    for (const Action& action : forward) {
        engine.stage.forward(engine.stream, batch, action.chunk, 0, info);
        if (engine.decisions.shape.spans[static_cast<std::size_t>(action.chunk)].heads) {
            engine.stage.evaluate(engine.stream, batch, action.chunk, 0, engine.sums.loss(0));
        }
    }
    engine.units.finish();
}

}  // namespace

template <class T>
void warm_up(Engine<T>& engine) {
    const TrainConfig& train = engine.run.train;
    const std::vector<Batch> batches = {make_batch(train.micro_batch, train.sequence)};
    const std::vector<BatchView> views = engine.batches.put(batches);
    std::vector<Action> actions;
    const auto chunks = static_cast<i64>(engine.decisions.shape.spans.size());
    for (i64 chunk = 0; chunk < chunks; ++chunk) {
        actions.push_back({.kind = ActionKind::forward, .chunk = chunk});
    }
    for (i64 chunk = chunks; chunk-- > 0;) {
        actions.push_back({.kind = ActionKind::backward, .chunk = chunk});
    }
    const std::vector<UnitUse> uses = uses_of(engine.layout, actions, Passes::training);
    const typename Stage<T>::StepInfo info{.loss_scale = 0, .seed = train.seed, .loss_sum = engine.sums.loss(0)};
    for (i64 chunk = 0; chunk < chunks; ++chunk) {  // what a message would have brought
        const auto elements = static_cast<std::size_t>(engine.stage.boundary_elements());
        set_zero(engine.stream, std::span(engine.stage.activation_in(chunk, 0), elements));
    }
    set_zero(engine.stream,
             std::span(engine.stage.gradient(0), static_cast<std::size_t>(engine.stage.boundary_elements())));
    engine.units.begin_step(uses);
    for (const Action& action : actions) {
        if (action.kind == ActionKind::forward) {
            engine.stage.forward(engine.stream, views[0], action.chunk, 0, info);
        } else {
            engine.stage.backward(engine.stream, views[0], action.chunk, 0, 0, info);
        }
    }
    engine.units.finish();
    evaluate_once(engine, views[0], actions);
    add_squares(engine.stream, engine.state, engine.layout, engine.ownership, engine.decisions.place,
                engine.sums.squares());
    engine.sums.read();
}

template void warm_up<float>(Engine<float>&);
template void warm_up<double>(Engine<double>&);
template void warm_up<Bf16>(Engine<Bf16>&);
template void warm_up<Fp16>(Engine<Fp16>&);

}  // namespace ogrom
