// The small numbers that a step agrees on over all ranks.
#pragma once
#include <span>

#include "src/train/engine.h"

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

}  // namespace ogrom
