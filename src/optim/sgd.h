// Stochastic gradient descent with optional momentum over the update ranges of a flat buffer; formula in
// kernels/ops/optimizer.h. Same contract as adamw.h; `moment` is empty when momentum = 0.
#pragma once
#include <span>

#include "kernels/ops/optimizer.h"

#include "src/optim/shard.h"

namespace ogrom {

template <class T>
void sgd_update(Stream stream, std::span<const UpdateRange> ranges, std::span<T> weights, std::span<T> moment,
                std::span<const T> gradients, const ops::StepScalars& scalars);

}  // namespace ogrom
