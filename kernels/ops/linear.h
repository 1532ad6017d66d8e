// A linear layer's products together with the pass that stands beside each. w[out, in], rows x in -> rows x out, all
// matrices packed. On a CPU, and wherever the GPU's library has no product with the pass in it, each is the two
// operations that it names, with their bits; a product of 16 bits on a GPU may do the pass on its sums before they are
// rounded (cublasLt epilogues), which is one rounding fewer and one pass over memory less.
//   linear_bias             y = x w^T + bias                            matmul, add_bias
//   linear_bias_gelu        u = x w^T + bias ; y = gelu(u)              matmul, bias_gelu_forward
//   linear_input_gelu       d_u = (d_y w) gelu'(u)                      matmul, gelu_backward
//   linear_gradients        d_w += d_y^T x ; d_bias += sum_rows d_y     matmul, bias_gradient
// 2 rows in out flops each.
// Fusion::never asks for the two operations everywhere: linear_bias_gelu then gives the y that gelu_forward makes of
// the stored u, bit for bit (recomputation).
#pragma once
#include "kernels/common/dtype.h"
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom::ops {

enum class Fusion { allowed, never };

template <class T>
struct LinearBias {
    T* y;             // [rows, out]
    const T* x;       // [rows, in]
    const T* weight;  // [out, in]
    const T* bias;    // [out] or null
    i64 rows, in, out;
    Fusion fusion = Fusion::allowed;
};
template <class T>
void linear_bias(Stream stream, const LinearBias<T>& op);

template <class T>
struct LinearBiasGelu {
    T* y;             // [rows, out]
    T* u;             // [rows, out]
    const T* x;       // [rows, in]
    const T* weight;  // [out, in]
    const T* bias;    // [out] or null
    i64 rows, in, out;
    Fusion fusion = Fusion::allowed;
};
template <class T>
void linear_bias_gelu(Stream stream, const LinearBiasGelu<T>& op);

// Through a layer whose input was gelu(u).
template <class T>
struct LinearInputGelu {
    T* d_u;           // [rows, in]
    const T* d_y;     // [rows, out]
    const T* weight;  // [out, in]
    const T* u;       // [rows, in]
    i64 rows, in, out;
    Fusion fusion = Fusion::allowed;
};
template <class T>
void linear_input_gelu(Stream stream, const LinearInputGelu<T>& op);

template <class T>
struct LinearGradients {
    GradientOf<T>* d_weight;  // [out, in], added to
    GradientOf<T>* d_bias;    // [out], added to; or null
    const T* d_y;             // [rows, out]
    const T* x;               // [rows, in]
    i64 rows, in, out;
    Fusion fusion = Fusion::allowed;
};
template <class T>
void linear_gradients(Stream stream, const LinearGradients<T>& op);

}  // namespace ogrom::ops
