#include "src/train/pass_graphs.h"

#include <algorithm>
#include <limits>

#include "src/base/timer.h"
#include "src/train/work.h"

namespace ogrom {
namespace {

// The same kernels on the same memory, whatever the micro-batch.
bool same_pass(const Action& a, const Action& b) {
    Action with = a;
    with.micro_batch = b.micro_batch;
    return with == b;
}

std::vector<Action> distinct_passes(const StageSchedule& schedule) {
    std::vector<Action> passes;
    for (const Action& action : schedule.actions) {
        const auto same = [&](const Action& other) { return same_pass(action, other); };
        if (is_compute(action.kind) && std::none_of(passes.begin(), passes.end(), same)) {
            passes.push_back(action);
            passes.back().micro_batch = 0;
        }
    }
    return passes;
}

// Of equal extents and fields: the copy of one stands where the copy of the other stood.
bool alike(const BatchView& a, const BatchView& b) {
    return a.B == b.B && a.T == b.T && (a.segments == nullptr) == (b.segments == nullptr);
}

// What other stages would have sent.
template <class T>
void clear_inputs(Engine<T>& engine, const std::vector<Action>& passes) {
    const auto elements = static_cast<std::size_t>(engine.stage.boundary_elements());
    for (const Action& action : passes) {
        if (action.kind == ActionKind::forward) {
            set_zero(engine.stream, std::span(engine.stage.activation_in(action.chunk, action.slot), elements));
        } else if (action.kind != ActionKind::backward_weight) {
            set_zero(engine.stream, std::span(engine.stage.gradient(action.buffer), elements));
        }
    }
}

}  // namespace

template <class T>
typename Stage<T>::StepInfo PassGraphs<T>::info_of(Engine<T>& engine) const {
    typename Stage<T>::StepInfo info;
    info.seed = engine.run.train.seed;
    info.loss_sum = engine.scalars.loss_at();
    info.loss_scale_at = engine.scalars.loss_scale_at();
    info.step_at = engine.scalars.step_at();
    return info;
}

template <class T>
void PassGraphs<T>::record(Engine<T>& engine, const Batch& like) {
    passes_.clear();
    const std::vector<Action> passes = distinct_passes(engine.decisions.actions);
    // Run, recorded, and told once more: so that no use is the last of its unit, and nothing is reduced within.
    const std::vector<UnitUse> once = uses_of(engine.layout, passes, Passes::training);
    std::vector<UnitUse> uses = once;
    uses.insert(uses.end(), once.begin(), once.end());
    uses.insert(uses.end(), once.begin(), once.end());
    batch_ = engine.batches.make_current(engine.batches.put({&like, 1}).front());
    const typename Stage<T>::StepInfo info = info_of(engine);
    const std::vector<BatchView> views = {batch_};
    ModelWork<T> work(engine, views, info, Passes::training);
    engine.scalars.set(0, 0);
    clear_inputs(engine, passes);
    engine.units.begin_step(uses);
    for (const Action& action : passes) {
        work.enqueue(action, info);
    }
    for (const Action& action : passes) {
        Recorded recorded;
        recorded.action = action;
        recorded.uses = static_cast<i64>(uses_of(engine.layout, std::array{action}, Passes::training).size());
        recorded.makes_loss = action.kind != ActionKind::forward && action.kind != ActionKind::backward_weight &&
                              engine.decisions.shape.spans[static_cast<std::size_t>(action.chunk)].heads;
        recorded.work = RecordedWork::record(engine.stream, [&] { work.enqueue(action, info); });
        passes_.push_back(std::move(recorded));
    }
    engine.units.abandon();
    wait(engine.stream);
}

template <class T>
typename PassGraphs<T>::Times PassGraphs<T>::measure(Engine<T>& engine) const {
    constexpr int rounds = 2;
    std::vector<Action> passes;
    for (const Recorded& pass : passes_) {
        passes.push_back(pass.action);
    }
    const std::vector<UnitUse> once = uses_of(engine.layout, passes, Passes::training);
    std::vector<UnitUse> uses;
    for (int n = 0; n < 2 * rounds + 1; ++n) {
        uses.insert(uses.end(), once.begin(), once.end());
    }
    const std::vector<BatchView> views = {batch_};
    ModelWork<T> work(engine, views, info_of(engine), Passes::training);
    engine.units.begin_step(uses);
    wait(engine.stream);
    Times times{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    const auto timed = [&](double& shortest, const auto& enqueue) {
        const Timer timer;
        for (const Recorded& pass : passes_) {
            enqueue(pass);
        }
        wait(engine.stream);
        shortest = std::min(shortest, timer.seconds());
    };
    for (int round = 0; round < rounds; ++round) {
        timed(times.whole, [&](const Recorded& pass) {
            pass.work.launch();
            engine.units.pass_over(pass.uses);
        });
        timed(times.single, [&](const Recorded& pass) { work.enqueue(pass.action, info_of(engine)); });
    }
    engine.units.abandon();
    wait(engine.stream);
    return times;
}

template <class T>
void PassGraphs<T>::begin_step(Engine<T>& engine, const typename Stage<T>::StepInfo& info) const {
    if (!passes_.empty()) {
        engine.scalars.set(info.loss_scale, info.step);
    }
}

template <class T>
bool PassGraphs<T>::launch(Engine<T>& engine, const Action& action, const BatchView& batch) {
    const auto found = std::find_if(passes_.begin(), passes_.end(),
                                    [&](const Recorded& pass) { return same_pass(pass.action, action); });
    if (found == passes_.end() || !alike(batch, batch_) || !found->work.stands() || !engine.units.plain(found->uses)) {
        return false;
    }
    engine.batches.make_current(batch);
    if (found->makes_loss) {
        engine.scalars.clear_loss();
    }
    found->work.launch();
    if (found->makes_loss) {
        engine.scalars.take_loss(engine.sums.loss(action.micro_batch));
    }
    engine.units.pass_over(found->uses);
    ++launched_;
    return true;
}

template <class T>
i64 PassGraphs<T>::nodes() const {
    i64 sum = 0;
    for (const Recorded& pass : passes_) {
        sum += pass.work.nodes();
    }
    return sum;
}

template class PassGraphs<float>;
template class PassGraphs<double>;
template class PassGraphs<Bf16>;
template class PassGraphs<Fp16>;

}  // namespace ogrom
