// Bias and tanh-GELU (Hendrycks & Gimpel 2016, tanh form as in GPT-2).
//   forward   u = x + bias (kept in place of x) ; y = u/2 (1 + tanh(sqrt(2/pi) (u + 0.044715 u^3)))
//   again     y = gelu(u) from the kept u, the bits that forward stored (selective recomputation)
//   backward  dx = dy * dy/du(u)
// computed as y = u / (1 + e^-2k), k = sqrt(2/pi) (u + 0.044715 u^3): e^x by our own vectorised polynomial in fp32
// (within 2 ulp), std::exp in fp64. NaN and +Inf pass through; -Inf gives NaN, as the formula does.
#pragma once
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom::ops {

template <class T>
struct BiasGeluForward {
    T* y;           // [rows, F]
    T* x;           // [rows, F]; on return x + bias
    const T* bias;  // [F] or null
    i64 rows, F;
};
template <class T>
void bias_gelu_forward(Stream stream, const BiasGeluForward<T>& op);

template <class T>
struct GeluForward {
    T* y;        // [n], may alias u
    const T* u;  // [n] saved x + bias
    i64 n;
};
template <class T>
void gelu_forward(Stream stream, const GeluForward<T>& op);

template <class T>
struct GeluBackward {
    T* d_x;        // [n], may alias d_y
    const T* d_y;  // [n]
    const T* u;    // [n] saved x + bias
    i64 n;
};
template <class T>
void gelu_backward(Stream stream, const GeluBackward<T>& op);

}  // namespace ogrom::ops
