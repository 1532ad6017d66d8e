// Sums over flat ranges, repeatable for any number of threads: partial sums in double over fixed blocks of
// 4096 elements counted from the range's start, added in ascending order.
//   sum_of_squares  sum x^2        2 n flops
//   all_finite      no NaN, no Inf (bits tested: safe under any compiler flag)
#pragma once
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom::ops {

template <class T>
double sum_of_squares(Stream stream, const T* x, i64 n);

template <class T>
bool all_finite(Stream stream, const T* x, i64 n);

}  // namespace ogrom::ops
