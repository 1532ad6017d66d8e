// Comes in: the step's micro-batches [B, T] of this rank (host); weights and moments [P] (arena).
// Goes out: weights and moments after one update; loss, norm and rate of the step, equal on all ranks.
// Next: train/passes.cpp, then optim/gradients.cpp, optim/clip.cpp, optim/adamw.cpp
#include "src/train/step.h"

#include <cmath>

#include "src/device/buffer.h"
#include "src/optim/clip.h"
#include "src/optim/learning_rate.h"
#include "src/train/control.h"
#include "src/train/passes.h"
#include "src/train/update.h"

namespace ogrom {
template <class T>
StepResult train_step(Engine<T>& engine, std::span<const Batch> batches, i64 targets, StopVote* vote) {
    StepResult result;
    // loss = sum over unmasked targets of the whole global batch / their number, however the batch is cut.
    const double scale = loss_scale(batches, targets, engine.dp.size());
    set_zero(engine.gradients);
    // gradients: zero; weights: full on all ranks, equal; moments: of the last update

    const typename Stage<T>::StepInfo info{scale, engine.run.train.seed, engine.step, true};
    const std::optional<double> loss_sum = run_passes(engine, batches, info, vote);
    if (!loss_sum) {
        result.stopped = true;
        return result;
    }
    // gradients: this rank's sums of d loss / d weight; buckets of the last micro-batch are under way over dp

    engine.reducer.finish();
    // gradients: summed over dp, equal on all ranks

    result.loss = agree_loss(engine.dp, *loss_sum, targets);
    result.norm = global_norm<T>(engine.stream, engine.gradients, engine.layout);
    result.clip = clip_factor(result.norm, engine.run.optimizer.clip_norm);
    result.lr = learning_rate(engine.run.optimizer, engine.run.train.steps, schedule_step(engine));
    // loss, norm, factor, rate: equal on all ranks, bit for bit, so each of them decides alike

    if (!std::isfinite(result.loss) || !std::isfinite(result.norm)) {
        result.nonfinite = engine.reducer.agree_nonfinite();
        result.skipped = true;
        ++engine.skipped;
        ++engine.consecutive_skips;
    } else {
        update(engine, make_scalars(engine.run.optimizer, result.lr, result.clip, engine.updates()));
        engine.consecutive_skips = 0;
    }
    // weights, moments: of this update, full on all ranks, equal (skipped: untouched); gradients: spent

    ++engine.step;
    return result;
}

template StepResult train_step<float>(Engine<float>&, std::span<const Batch>, i64, StopVote*);
template StepResult train_step<double>(Engine<double>&, std::span<const Batch>, i64, StopVote*);

}  // namespace ogrom
