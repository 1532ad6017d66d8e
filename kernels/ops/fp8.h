// Matrices in fp8 (kernels/common/fp8.h), one factor each, and their products.
//   quantise    codes[r,c] = to_fp8(x[r,c] factor), factor = largest of the format / max |x|     3 rows cols flops
//               bytes: s n for the largest, s n + n (+ n for the transposed copy) for the codes
//   fp8_matmul  y[m,n] = inverse_a inverse_b sum_k a[m,k] b[n,k] + beta y                         2 m n k flops
// The scale is current: of the tensor as it is, no history. The largest value has no order, so the bits of a quantised
// tensor depend on its elements alone. A tensor with a NaN or an infinity gets the factor NaN, and each of its products
// is NaN throughout. Both operands of a product lie along k (the tensor cores of sm_90 take no other form), hence the
// transposed copies. A GPU takes bf16 and writes y as bf16 or fp32; the CPU is the plain reference in float and double:
// it sums in double and takes memory for its operands.
#pragma once
#include "kernels/common/fp8.h"
#include "kernels/common/stream.h"

namespace ogrom::ops {

// given: scale->largest stands as an earlier call left it for the same x; x is read once less.
enum class Largest { measured, given };

template <class T>
struct Quantise {
    Fp8Code* codes;       // [rows, cols] or null
    Fp8Code* transposed;  // [cols, rows] or null
    Fp8Scale* scale;      // written
    const T* x;           // [rows, cols]
    i64 rows, cols;
    Dtype format;
    Largest largest = Largest::measured;
    GradientOf<T>* column_sums = nullptr;  // [cols] += sum over rows of x, in a fixed order; measured only
};
template <class T>
void quantise(Stream stream, const Quantise<T>& op);

struct Fp8Matrix {
    const Fp8Code* codes;
    const Fp8Scale* scale;
    Dtype format;
};

// full: sums of products in fp32. fast: on sm_90 the tensor cores keep about 14 bits of a partial sum between their
// steps instead of adding each to fp32 registers, which is faster.
enum class ProductSums { full, fast };

// At most one operand is fp8_e5m2. m, n and k are multiples of 16 on a GPU, addresses of 16 bytes.
template <class Y>
struct Fp8Matmul {
    Y* y;         // [m, n]
    Fp8Matrix a;  // [m, k]
    Fp8Matrix b;  // [n, k]
    i64 m, n, k;
    ProductSums sums = ProductSums::full;
    StatisticOf<Y> beta = 0;  // 0 or 1; 0: y is not read
};
template <class Y>
void fp8_matmul(Stream stream, const Fp8Matmul<Y>& op);

}  // namespace ogrom::ops
