// Plain passes over flat ranges of one type.
//   add    y[i] += x[i]      n flops, 3 n elements of traffic (an owner adds a reduced piece to its accumulator)
//   copy   y[i] = x[i]       2 n elements of traffic
// Ranges may be equal but must not overlap otherwise. Any cut gives the same bits.
#pragma once
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom::ops {

template <class T>
void add(Stream stream, T* y, const T* x, i64 n);

template <class T>
void copy(Stream stream, T* y, const T* x, i64 n);

}  // namespace ogrom::ops
