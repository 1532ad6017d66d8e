// A linear layer y[rows, out] = x[rows, in] w^T, w[out, in] (Megatron-LM, Shoeybi et al. 2019, for the split).
//   column parallel: w's rows are split, out_local = out / tp, in_local = in. Forward needs nothing of other ranks;
//                    dx is a partial sum over tp.
//   row parallel:    w's columns are split, in_local = in / tp, out_local = out. y is a partial sum over tp, so the
//                    bias is added after it (by the residual joint); dx needs nothing.
// The layers make those sums (model/tensor_group.h). 2 rows out in flops forward, twice that backward, in two halves
// that a split backward pass makes apart. The bias is part of the product, or fused into what follows (kernels/ops).
#pragma once
#include "kernels/common/stream.h"
#include "kernels/ops/matmul.h"

namespace ogrom {

template <class T>
struct Linear {
    const T* weight = nullptr;          // [out_local, in_local]
    const T* bias = nullptr;            // [out_local], null: none
    GradientOf<T>* d_weight = nullptr;  // added to
    GradientOf<T>* d_bias = nullptr;
    i64 out_local = 0, in_local = 0;
};

// y[rows, out_local] = x[rows, in_local] w^T, without bias.
template <class T>
void linear_forward(Stream stream, const Linear<T>& linear, T* y, const T* x, i64 rows);

// The same with the bias, for a column-parallel layer.
template <class T>
void linear_bias_forward(Stream stream, const Linear<T>& linear, T* y, const T* x, i64 rows);

// dx[rows, in_local] = dy w (overwritten).
template <class T>
void linear_input_gradient(Stream stream, const Linear<T>& linear, T* d_x, const T* d_y, i64 rows);

// d_weight += dy^T x.
template <class T>
void linear_weight_gradient(Stream stream, const Linear<T>& linear, const T* d_y, const T* x, i64 rows);

// d_bias += sum_rows dy, where there is a bias.
template <class T>
void linear_bias_gradient(Stream stream, const Linear<T>& linear, const T* d_y, i64 rows);

// Both of them.
template <class T>
void linear_gradients(Stream stream, const Linear<T>& linear, const T* d_y, const T* x, i64 rows);

}  // namespace ogrom
