// Inside of ops/matmul on the CPU: the cut of products whose extents do not fit the int of CBLAS. Exposed so that a
// test can cut an ordinary product with a small limit.
#pragma once
#include "kernels/ops/matmul.h"

namespace ogrom::cpu {

// The product as CBLAS calls of at most `limit` in each extent, k ascending. Row strides above the int range are
// refused.
template <class T>
void matmul_in_pieces(const ops::Matmul<T>& op, i64 limit);

}  // namespace ogrom::cpu
