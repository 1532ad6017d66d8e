// Comes in: the step's micro-batches [B, T] of this rank (host); weights and
// moments (arena), as ZeRO keeps them. Goes out: weights and moments after one
// update; loss, norm and rate of the step, equal on all ranks. Next:
// train/passes.cpp, then optim/units.cpp, optim/join.cpp, optim/clip.cpp,
// optim/update.cpp
#include "src/train/step.h"

#include "kernels/common/fault.h"

#include "src/optim/clip.h"
#include "src/optim/learning_rate.h"
#include "src/train/control.h"
#include "src/train/passes.h"

namespace ogrom {

template <class T>
StepResult train_step(Engine<T>& engine, std::span<const Batch> batches, i64 targets, StopVote* vote) {
    StepResult result;
    // loss = sum over unmasked targets of the whole global batch / their number,
    // however the batch is cut.
    const double scale = loss_scale(batches, targets, engine.mesh.shape.dp);
    // weights: full on each data rank, equal (ZeRO 3: own shard); moments: of the
    // last update, own shard (ZeRO 0: full)

    // fp16: gradients of the passes are S times the true ones, exactly; else S = 1
    const double S = result.loss_scale = engine.scaling.factor();
    const typename Stage<T>::StepInfo info{S * scale, engine.run.train.seed, engine.step, true};
    if (run_passes(engine, batches, info, vote) == PassesEnd::left) {
        result.stopped = true;
        return result;
    }
    // gradients: d loss / d weight; direct: this rank's sums, buckets of the last
    // micro-batch under way; staged: sums over data ranks on their owners, the
    // last units under way

    engine.units.finish();
    // gradients: summed over data ranks; ZeRO 0: full on all; else own shard;
    // tied and replicated parts still apart

    engine.join.run();
    // gradients: of the whole model's loss

    add_squares(engine.stream, engine.state, engine.layout, engine.ownership, engine.decisions.place,
                engine.sums.squares());
    engine.sums.read();
    // sums: on the host; the only time in a step that it waits for a GPU

    result.loss = agree_loss(engine, engine.sums.loss_sum(), targets);
    result.norm = agree_norm(engine.sums.squares_read(), engine.world) / S;
    result.clip = clip_factor(result.norm, engine.run.optimizer.clip_norm);
    result.lr = learning_rate(engine.run.optimizer, engine.run.train.steps, schedule_step(engine));
    // loss, norm, factor, rate: equal on all ranks, bit for bit, so each of them
    // decides alike

    const LossScaling::Outcome outcome = engine.scaling.judge(result.loss, result.norm);
    if (outcome == LossScaling::Outcome::good) {
        const TraceScope scope(engine.trace, "update", SpanCategory::optimizer);
        const double factor = fault_active("loss_scale_left_in_update") ? result.clip : result.clip / S;
        engine.update.run(engine.stream, make_scalars(engine.run.optimizer, result.lr, factor, engine.updates()));
        engine.consecutive_skips = 0;
    } else {
        leave_out(engine, result, outcome);
    }
    // weights: of this update, full on each data rank, equal (ZeRO 3: own shard);
    // moments: own; skipped: untouched

    ++engine.step;
    return result;
}

template StepResult train_step<float>(Engine<float>&, std::span<const Batch>, i64, StopVote*);
template StepResult train_step<double>(Engine<double>&, std::span<const Batch>, i64, StopVote*);
template StepResult train_step<Bf16>(Engine<Bf16>&, std::span<const Batch>, i64, StopVote*);
template StepResult train_step<Fp16>(Engine<Fp16>&, std::span<const Batch>, i64, StopVote*);

}  // namespace ogrom
