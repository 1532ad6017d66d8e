// A linear layer whose three products are made in fp8 (kernels/ops/fp8.h), w[out, in], rows x in -> rows x out:
//   forward           y = x w^T + bias           x e4m3,   w e4m3   fast sums   result in T
//   input gradient    d_x = d_y w                d_y e5m2, w e4m3   full sums   result in T
//   weight gradient   d_w += d_y^T x             d_y e5m2, x e4m3   full sums   added in GradientOf<T>
// 2 rows in out flops forward, twice that backward. Beside them, in bytes of a bf16 layer: forward 5 rows in + 5 out in
// (largest value, then codes), backward 6 rows out + 3 rows in + 3 out in: the weights are quantised once a pass.
// Errors of a product from the roundings of its operands: each is off by up to 2^-4 (e4m3) or 2^-3 (e5m2) of itself, or
// of the smallest normal number where it is smaller than that.
#pragma once
#include "kernels/common/fp8.h"
#include "kernels/common/stream.h"
#include "kernels/ops/linear.h"

namespace ogrom::ops {

// Whether a GPU's fp8 products take the layer: all three extents are multiples of 16.
constexpr bool linear_fp8_fits(i64 rows, i64 in, i64 out) {
    return rows % 16 == 0 && in % 16 == 0 && out % 16 == 0 && rows > 0 && in > 0 && out > 0;
}

// Bytes of working memory that each call of such a layer takes, aligned to 256.
i64 linear_fp8_workspace(i64 rows, i64 in, i64 out);

// What forward leaves for backward: the scales of x and w, so that neither is searched again.
struct LinearFp8Scales {
    Fp8Scale x, weight;
};

template <class T>
struct LinearFp8Forward {
    T* y;             // [rows, out]; of gelu(u) where u is asked for
    T* u;             // [rows, out] x w^T + bias in front of a gelu, or null: no gelu
    const T* x;       // [rows, in]
    const T* weight;  // [out, in]
    const T* bias;    // [out] or null
    i64 rows, in, out;
    void* workspace;
    LinearFp8Scales* scales;  // written
    Fusion fusion = Fusion::allowed;
};
template <class T>
void linear_fp8_forward(Stream stream, const LinearFp8Forward<T>& op);

// Both gradients, or one of them: d_y is quantised once. Apart they give the bits of both.
template <class T>
struct LinearFp8Backward {
    T* d_x;                   // [rows, in], overwritten; null: not made
    GradientOf<T>* d_weight;  // [out, in], added to; null: not made
    GradientOf<T>* d_bias;    // [out], added to with d_weight; or null
    const T* d_y;             // [rows, out]
    const T* x;               // [rows, in]; read for d_weight
    const T* weight;          // [out, in]; read for d_x
    const T* u;               // [rows, in]: x was gelu(u), and d_x becomes the gradient of u; or null
    i64 rows, in, out;
    void* workspace;
    LinearFp8Scales* scales;  // as forward left them; their inverses are written again
    Fusion fusion = Fusion::allowed;
};
template <class T>
void linear_fp8_backward(Stream stream, const LinearFp8Backward<T>& op);

}  // namespace ogrom::ops
