// Plain passes over flat ranges of one type.
//   add    y[i] += x[i]      n flops, 3 n elements of traffic (an owner adds a reduced piece to its accumulator)
//   copy   y[i] = x[i]       2 n elements of traffic
//   fill   y[i] = value      n elements of traffic
//   cast   y[i] = x[i], to the nearest of the other type, ties to even; Inf beyond its range, a NaN stays one
// Ranges may be equal (of cast: where the types are) but must not overlap otherwise. Any cut gives the same bits.
// Types: float and double; copy, fill and cast Bf16 and Fp16 as well; add of these to float, exact numbers.
#pragma once
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom::ops {

template <class Y, class X = Y>
void add(Stream stream, Y* y, const X* x, i64 n);

template <class T>
void copy(Stream stream, T* y, const T* x, i64 n);

template <class T>
void fill(Stream stream, T* y, T value, i64 n);

template <class To, class From>
void cast(Stream stream, To* y, const From* x, i64 n);

}  // namespace ogrom::ops
