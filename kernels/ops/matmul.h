// Matrix products of linear layers, and the bias sums beside them. Row-major.
//   matmul           y[m,n] = alpha * op(a)[m,k] op(b)[k,n] + beta * y         2 m n k flops
//   bias_gradient    db[n] += sum_m dy[m,n]                                    m n flops, double sums, fixed order
// Linear layer with weight w[N,K] (out, in): forward y = x w^T (b transposed); data gradient dx = dy w;
// weight gradient dw += dy^T x (a transposed, beta = 1).
#pragma once
#include "kernels/common/dtype.h"
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom::ops {

enum class Transpose { no, yes };

// Types: y is stored in Y, which is T but where a product of bf16 or fp16 adds to a gradient kept in float; sums and
// factors are StatisticOf<T>.
template <class T, class Y = T>
struct Matmul {
    Y* y;
    const T* a;  // [m,k], or [k,m] when transpose_a
    const T* b;  // [k,n], or [n,k] when transpose_b
    i64 m, n, k;
    i64 ldy, lda, ldb;  // elements between rows as stored
    Transpose transpose_a = Transpose::no;
    Transpose transpose_b = Transpose::no;
    StatisticOf<T> alpha = 1;
    StatisticOf<T> beta = 0;  // 0: y is not read (it may hold NaN)
};
template <class T, class Y = T>
void matmul(Stream stream, const Matmul<T, Y>& op);

// Who does float products on this CPU: "own avx512", or "openblas" and its core, such as "openblas Haswell". Our own
// packed product is the default where the processor has AVX-512; the environment variable OGROM_MATMUL=openblas|own,
// read once, overrides (another word, or own without AVX-512, throws). double is always OpenBLAS.
const char* matmul_backend();

// Bytes of packing memory that float products keep for `threads` threads on this CPU: a fixed size per thread, taken at
// its first product. 0 with OpenBLAS, which has its own.
i64 matmul_workspace_bytes(int threads);

template <class T>
struct BiasGradient {
    GradientOf<T>* d_bias;  // [cols], added to
    const T* d_y;           // [rows, cols]
    i64 rows, cols, ldy;
};
template <class T>
void bias_gradient(Stream stream, const BiasGradient<T>& op);

}  // namespace ogrom::ops
