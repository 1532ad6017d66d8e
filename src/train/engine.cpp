#include "src/train/engine.h"

#include "src/device/buffer.h"

namespace ogrom {
namespace {

std::vector<ActionList> cut_into_passes(const ActionList& schedule) {
    std::vector<ActionList> passes(1);
    for (const Action& action : schedule) {
        if (!passes.back().empty() && passes.back().back().kind == ActionKind::backward) {
            passes.emplace_back();
        }
        passes.back().push_back(action);
    }
    return passes;
}

}  // namespace

template <class T>
Engine<T>::Engine(const RunConfig& run_, const Decisions& decisions_, const Ledger& ledger, Communicator& dp_,
                  GradientHook<T> hook)
    : run(run_),
      decisions(decisions_),
      dp(dp_),
      table(make_parameters(run.model, dtype_of<T>())),
      layout(table, decisions.span),
      ranges(make_update_ranges(layout, run.optimizer.weight_decay)),
      passes(cut_into_passes(make_schedule(1, 0, decisions.micro_batches))),
      arena(ledger),
      weights(arena.take<T>("weights")),
      gradients(arena.take<T>("gradients")),
      moment1(decisions.has_moment1 ? arena.take<T>("moment1") : std::span<T>()),
      moment2(decisions.has_moment2 ? arena.take<T>("moment2") : std::span<T>()),
      reducer(dp, layout, gradients, arena, {decisions.bucket_elements, decisions.reduce_order, decisions.overlap}),
      stage(run.model, decisions.span, decisions.extents, layout, arena, weights, gradients,
            make_hooks(std::move(hook))) {
    initialise<T>(weights, layout, run.train.seed);
    set_zero(moment1);
    set_zero(moment2);
}

template <class T>
StageHooks Engine<T>::make_hooks(GradientHook<T> hook) {
    StageHooks hooks;
    hooks.gradient_ready = [this, hook = std::move(hook)](i64 first, i64 last) {
        if (hook) {
            hook(step, first, last, gradients);
        }
        reducer.ready(first, last);
        dp.progress();  // of a stop vote: the reducer moves only what it has issued itself
    };
    return hooks;
}

template class Engine<float>;
template class Engine<double>;

}  // namespace ogrom
