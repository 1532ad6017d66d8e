// The small numbers that a step agrees on over all ranks.
#pragma once
#include <span>

#include "src/train/engine.h"
#include "src/train/step.h"

namespace ogrom {

// Factor on every loss term: 1 / targets of the global batch (0 where there are
// none).
double loss_scale(std::span<const Batch> batches, i64 targets, int dp);

// Mean loss of the global batch, summed over the ranks that hold a loss in rank
// order; equal on all ranks.
template <class T>
double agree_loss(Engine<T>& engine, double loss_sum, i64 targets);

// Step that the learning rate goes by.
template <class T>
i64 schedule_step(const Engine<T>& engine);

// The end of a step that updates nothing: counters, and who had a number that is not finite first. Collective,
// `outcome` is the same on all ranks.
template <class T>
void leave_out(Engine<T>& engine, StepResult& result, LossScaling::Outcome outcome);

}  // namespace ogrom
