// A linear layer y[rows, out] = x[rows, in] w^T, w[out, in] (Megatron-LM, Shoeybi et al. 2019, for the split).
//   column parallel: w's rows are split, out_local = out / tp, in_local = in. Forward needs nothing of other ranks;
//                    dx is a partial sum over tp.
//   row parallel:    w's columns are split, in_local = in / tp, out_local = out. y is a partial sum over tp, so the
//                    bias is added after it (by the residual joint); dx needs nothing.
// The layers make those sums (model/tensor_group.h). 2 rows out in flops forward, twice that backward, in two halves
// that a split backward pass makes apart. The bias is part of the product, or fused into what follows (kernels/ops).
// Products are made in T, or in fp8 (kernels/ops/linear_fp8.h) where the layer has the memory for it and its extents
// fit.
#pragma once
#include <functional>

#include "kernels/common/stream.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/linear_fp8.h"
#include "kernels/ops/matmul.h"

namespace ogrom {

struct Fp8Memory {
    void* workspace = nullptr;               // linear_fp8_workspace of the layer; null: products in T
    ops::LinearFp8Scales* scales = nullptr;  // from a forward pass to its backward pass
};

template <class T>
struct Linear {
    const T* weight = nullptr;          // [out_local, in_local]
    const T* bias = nullptr;            // [out_local], null: none
    GradientOf<T>* d_weight = nullptr;  // added to
    GradientOf<T>* d_bias = nullptr;
    i64 out_local = 0, in_local = 0;
    Fp8Memory fp8{};
};

// y[rows, out_local] = x[rows, in_local] w^T, without bias.
template <class T>
void linear_forward(Stream stream, const Linear<T>& linear, T* y, const T* x, i64 rows);

// The same with the bias, for a column-parallel layer.
template <class T>
void linear_bias_forward(Stream stream, const Linear<T>& linear, T* y, const T* x, i64 rows);

// u[rows, out_local] = x w^T + bias, y = gelu(u).
template <class T>
void linear_gelu_forward(Stream stream, const Linear<T>& linear, T* y, T* u, const T* x, i64 rows, ops::Fusion fusion);

// Whether a backward pass adds to d_bias; not where the bias stands behind a sum over ranks.
enum class BiasGradients { added, elsewhere };

// d_weight += dy^T x ; d_bias += sum_rows dy ; dx[rows, in_local] = dy w, or (dy w) gelu'(u) where x was gelu(u).
template <class T>
struct LinearBackward {
    T* d_x = nullptr;  // overwritten; null: not made
    const T* d_y = nullptr;
    const T* x = nullptr;  // null: the weights' gradient is not made
    const T* u = nullptr;  // or null
    BiasGradients bias = BiasGradients::elsewhere;
};
// `between` is called behind the first of two products; may be empty.
template <class T>
void linear_backward(Stream stream, const Linear<T>& linear, const LinearBackward<T>& op, i64 rows,
                     const std::function<void()>& between);

// d_bias += sum_rows dy, where there is a bias.
template <class T>
void linear_bias_gradient(Stream stream, const Linear<T>& linear, const T* d_y, i64 rows);

}  // namespace ogrom
