// Global norm of the gradient and the factor that clips it (Pascanu et al. 2013).
//   norm = sqrt( sum over tensors, in table order, of sum x^2 )     each logical element once: no padding, no tied copy
//   factor = norm > clip_norm > 0 ? clip_norm / norm : 1
// Sums in double over fixed blocks of each tensor, so the norm is the same under every layout of the ranks.
// Comes in: gradients[size], summed over dp. Goes out: two numbers; gradients are not scaled here. Next: adamw.cpp.
#pragma once
#include <span>

#include "kernels/common/stream.h"

#include "src/model/parameters.h"

namespace ogrom {

template <class T>
double global_norm(Stream stream, std::span<const T> gradients, const ParameterLayout& layout);

double clip_factor(double norm, double clip_norm);

}  // namespace ogrom
