// The joint of a branch and the residual stream.
//   forward   y = x + dropout(branch + bias)
//   backward  d_branch = dropout'(d_y) ; (d_x = d_y is the caller's: the stream passes through)
//   add_bias  y[r,:] += bias
// Rows hold positions [position0, position0 + T) of sequences of T_total (a cut of the sequence over ranks draws the
// masks of the whole). Global dropout element of (r, c): (sample[r / T] * T_total + position0 + r mod T) * C + c.
#pragma once
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"
#include "kernels/ops/dropout.h"

namespace ogrom::ops {

template <class T>
struct AddBias {
    T* y;
    const T* bias;  // [cols]; null: nothing to do
    i64 rows, cols, ldy;
};
template <class T>
void add_bias(Stream stream, const AddBias<T>& op);

template <class T>
struct ResidualForward {
    T* y;             // [B*T, C], may alias x or branch
    const T* x;       // [B*T, C]
    const T* branch;  // [B*T, C]
    const T* bias;    // [C] or null
    i64 B, T_, C;
    const i64* sample;  // [B]; may be null when p = 0
    DropoutSpec dropout;
    i64 position0 = 0;
    i64 T_total = 0;  // 0 = T_
};
template <class T>
void residual_forward(Stream stream, const ResidualForward<T>& op);

template <class T>
struct DropoutBackward {
    T* d_branch;   // [B*T, C], may alias d_y
    const T* d_y;  // [B*T, C]
    i64 B, T_, C;
    const i64* sample;
    DropoutSpec dropout;
    i64 position0 = 0;
    i64 T_total = 0;  // 0 = T_
};
template <class T>
void dropout_backward(Stream stream, const DropoutBackward<T>& op);

}  // namespace ogrom::ops
