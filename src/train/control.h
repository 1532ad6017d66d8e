// The small numbers of a step that all ranks must hold alike.
#pragma once
#include <span>

#include "src/comm/communicator.h"
#include "src/data/batch.h"

namespace ogrom {

// 1 / targets; 0 where every target of the global batch is masked (then the gradient is 0 and nothing is divided by 0).
double loss_scale(std::span<const Batch> batches, i64 targets, int dp);

// Sum over dp, in rank order, of the ranks' loss sums, over `targets`; 0 without targets.
double agree_loss(Communicator& dp, double loss_sum, i64 targets);

}  // namespace ogrom
