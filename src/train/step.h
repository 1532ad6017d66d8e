// One optimizer step, and the control message that precedes it.
#pragma once
#include <span>

#include "src/data/batch.h"
#include "src/train/engine.h"
#include "src/train/stop_vote.h"

namespace ogrom {

enum class Wish { go_on, stop };  // of one rank: a signal arrived or its time is over

enum class Writer { idle, busy };  // of one rank: its part of a background save

struct StepControl {
    i64 targets = 0;  // unmasked targets of the global batch
    bool stop = false;
    bool writers_idle = true;  // on all ranks
};
// One message a step, summed over the world: every rank learns the number that
// scales the loss, and whether any rank wants to stop, so that all leave at the
// same step; and whether a save can go on to its next stage.
StepControl agree_control(const Mesh& mesh, std::span<const Batch> batches, Wish wish, Writer writer = Writer::idle);

struct StepResult {
    double loss = 0;  // mean over the unmasked targets of the global batch
    double norm = 0;  // of the whole gradient, before clipping and without the loss scale
    double clip = 1;
    double lr = 0;
    double loss_scale = 1;      // of fp16, during this step
    bool skipped = false;       // not finite: nothing was updated
    bool overflow = false;      // skipped for the loss scale alone, which is smaller now: no fault
    NonFiniteReport nonfinite;  // who had it first, where that is known
    bool stopped = false;       // left at a micro-batch: no step was made, the other
                                // fields say nothing
};

// Comes in: this rank's micro-batches [B, T]; targets from agree_control. Goes
// out: weights and moments of one more update, engine.step one more; the result
// is the same on all ranks. A non-finite loss or norm updates nothing. With a
// vote the step can be left between two micro-batches: weights, moments and
// engine.step are as before it then.
template <class T>
StepResult train_step(Engine<T>& engine, std::span<const Batch> batches, i64 targets, StopVote* vote = nullptr);

}  // namespace ogrom
