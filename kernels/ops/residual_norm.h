// The joint of a branch and the residual stream with the norm behind it, in one pass over the rows:
//   y = x + dropout(branch + bias) ; norm = layernorm(y), mean and rstd kept
// The bits of residual_forward and layernorm_forward one after the other; the CPU makes these two calls. 4 rows C
// elements of traffic instead of 5.
#pragma once
#include "kernels/ops/layernorm.h"
#include "kernels/ops/residual.h"

namespace ogrom::ops {

template <class T>
struct ResidualNormForward {
    ResidualForward<T> residual;  // rows = B T_
    T* norm;                      // [rows, C]; overlaps none of the residual's arrays
    StatisticOf<T>* mean;         // [rows] or null
    StatisticOf<T>* rstd;         // [rows] or null
    const T* gamma;               // [C]
    const T* beta;                // [C] or null
    double epsilon;
};
template <class T>
void residual_norm_forward(Stream stream, const ResidualNormForward<T>& op);

// Its second half alone.
template <class T>
LayerNormForward<T> norm_of(const ResidualNormForward<T>& op) {
    const ResidualForward<T>& r = op.residual;
    return {op.norm, op.mean, op.rstd, r.y, op.gamma, op.beta, r.B * r.T_, r.C, op.epsilon};
}

}  // namespace ogrom::ops
