// Global norm of the gradient and the factor that clips it (Pascanu et al. 2013).
//   norm = sqrt( sum over tensors, in table order, of sum x^2 )     each logical element once: no padding, no tied copy
//   factor = norm > clip_norm > 0 ? clip_norm / norm : 1
// Comes in: gradients, joined (optim/join), each rank what it owns. Goes out: two numbers, equal on all ranks;
// gradients are not scaled here. Next: update.cpp.
#pragma once
#include "kernels/common/exact_sum.h"
#include "kernels/common/stream.h"

#include "src/optim/state.h"

namespace ogrom {

// Adds the squares of what this rank counts to `sum`, where the kernels run; nothing is waited for.
template <class T>
void add_squares(Stream stream, const StepState<T>& state, const ParameterLayout& layout, const Ownership& ownership,
                 const StepPlace& place, ExactSum& sum);
// The norm from every rank's sum, on the host. Collective.
double agree_norm(ExactSum sum, Communicator& world);

// Both, for memory that the host reads. Of what all ranks keep, each logical element once: of the gradients in `state`,
// a rank counts those it owns (on replica 0; of tensors replicated over tensor ranks, on tensor rank 0 only). The sums
// of squares of blocks of ops::norm_block elements of a tensor are added exactly (kernels/common/exact_sum.h), so that
// ZeRO stages, stages of the pipeline and buckets give the same bits on all ranks. NaN where a gradient is not finite.
// Collective.
template <class T>
double global_norm(Stream stream, const StepState<T>& state, const ParameterLayout& layout, const Ownership& ownership,
                   const StepPlace& place, Communicator& world);

double clip_factor(double norm, double clip_norm);

}  // namespace ogrom
