// AdamW over the update ranges of a flat buffer: decoupled decay, bias corrections from the count of updates done
// (skipped steps do not count). Formula and cost: kernels/ops/optimizer.h. Loshchilov & Hutter 2019. Comes in:
// gradients[size] summed over dp, not scaled; factor and rate in the scalars. Goes out: weights and moments [size] of
// this update. Next: io/metrics.cpp.
#pragma once
#include <span>

#include "kernels/ops/optimizer.h"

#include "src/config/run.h"
#include "src/optim/shard.h"

namespace ogrom {

// Scalars of update number `updates_done` + 1.
ops::StepScalars make_scalars(const OptimizerConfig& optimizer, double lr, double clip, i64 updates_done);

template <class T>
void adamw_update(Stream stream, std::span<const UpdateRange> ranges, std::span<T> weights, std::span<T> moment1,
                  std::span<T> moment2, std::span<const T> gradients, const ops::StepScalars& scalars);

}  // namespace ogrom
