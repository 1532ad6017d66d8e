// Layer normalisation over the last axis (Ba et al. 2016).
//   forward   mean_r = sum_c x/C ; rstd_r = 1/sqrt(sum_c (x-mean)^2 / C + epsilon) ; y = (x-mean) rstd gamma + beta
//   backward  with xh = (x-mean) rstd, g = dy gamma:
//             dx += rstd (g - mean_c(g) - xh mean_c(g xh)) ; dgamma += sum_r dy xh ; dbeta += sum_r dy
// Reductions over rows for dgamma/dbeta are over fixed blocks of rows, in order: repeatable for any number of threads.
// They are rounded to GradientOf<T> before they are added, so that a buffer of zeros added to the gradient later gives
// the same bits. Backward makes what it has a pointer for: d_x alone, the parameters' gradients alone, or all at once
// (same bits). A second forward call gives the bits of the first (recomputation). 8 rows C flops forward, 14 rows C
// backward (9 of d_x, 5 of the parameters). Saved: mean, rstd (and x by the caller).
#pragma once
#include "kernels/common/dtype.h"
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom::ops {

enum class Accumulate { overwrite, add };

template <class T>
struct LayerNormForward {
    T* y;                  // [rows, C]
    StatisticOf<T>* mean;  // [rows], may be null when nothing is saved (inference)
    StatisticOf<T>* rstd;  // [rows], likewise
    const T* x;            // [rows, C]
    const T* gamma;        // [C]
    const T* beta;         // [C] or null
    i64 rows, C;
    double epsilon;
};
template <class T>
void layernorm_forward(Stream stream, const LayerNormForward<T>& op);

template <class T>
struct LayerNormBackward {
    T* d_x;                  // [rows, C] or null
    GradientOf<T>* d_gamma;  // [C] or null, added to
    GradientOf<T>* d_beta;   // [C] or null, added to
    const T* d_y;            // [rows, C]; may alias d_x only when mode = overwrite
    const T* x;
    const T* gamma;
    const StatisticOf<T>* mean;
    const StatisticOf<T>* rstd;
    i64 rows, C;
    Accumulate mode;  // of d_x: the residual branch adds its gradient to what is there
};
template <class T>
void layernorm_backward(Stream stream, const LayerNormBackward<T>& op);

}  // namespace ogrom::ops
