#include "kernels/ops/gelu.h"

#include <algorithm>

#include "kernels/common/fastmath.h"
#include "kernels/common/fault.h"
#include "kernels/common/parallel.h"
#include "kernels/cuda/ops.h"

namespace ogrom::ops {
namespace {

constexpr double sqrt_2_over_pi = 0.79788456080286535588;
constexpr double cubic = 0.044715;
constexpr i64 element_grain = 2048;  // each element costs an exponential and a division

// e^-2k, k = sqrt(2/pi) (u + 0.044715 u^3). (1 + tanh k) / 2 = 1 / (1 + e^-2k) has no cancellation in the negative
// tail.
template <class T>
T exponential(T u) {
    return exp_fast(static_cast<T>(-2 * sqrt_2_over_pi) * u * (T{1} + static_cast<T>(cubic) * u * u));
}

// dy/du = s + u s (1 - s) 2 dk/du, s = 1 / (1 + e^-2k), 1 - s = s e^-2k. Beyond |u| = 9.9 the value at 9.9 is taken:
// there the derivative is within 1e-34 of 0 or 1, and e^-2k stays finite in fp32. A NaN passes the comparisons.
template <class T>
T derivative(T u) {
    constexpr T most = T(9.9);
    const T v = u > most ? most : (u < -most ? -most : u);
    const T e = exponential(v);
    const T s = T{1} / (T{1} + e);
    const T slope = static_cast<T>(2 * sqrt_2_over_pi) * (T{1} + static_cast<T>(3 * cubic) * v * v);
    return s + v * slope * (s * (s * e));
}

template <class T>
void value_range(T* y, const T* u, i64 n) {
    for (i64 i = 0; i < n; ++i) {
        y[i] = u[i] / (T{1} + exponential(u[i]));
    }
}

template <class T>
void forward_range(T* y, T* x, const T* bias, i64 n) {
    if (bias != nullptr) {
        for (i64 i = 0; i < n; ++i) {
            const T u = x[i] + bias[i];
            x[i] = u;
            y[i] = u / (T{1} + exponential(u));
        }
    } else {
        value_range(y, x, n);
    }
}

template <class T>
void backward_range(T* d_x, const T* d_y, const T* u, i64 n) {
    if (fault_active("gelu_derivative_wrong")) {
        for (i64 i = 0; i < n; ++i) {
            d_x[i] = d_y[i] / (T{1} + exponential(u[i]));
        }
        return;
    }
    for (i64 i = 0; i < n; ++i) {
        d_x[i] = d_y[i] * derivative(u[i]);
    }
}

}  // namespace

template <class T>
void bias_gelu_forward(Stream stream, const BiasGeluForward<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::bias_gelu_forward(stream, op);
        return;
    }
    const i64 grain = std::max<i64>(1, element_grain / std::max<i64>(1, op.F));
    parallel_ranges(op.rows, grain, [&](i64 first, i64 last) {
        for (i64 row = first; row < last; ++row) {
            const i64 start = row_offset(row, op.F);
            forward_range(op.y + start, op.x + start, op.bias, op.F);
        }
    });
}

template <class T>
void gelu_forward(Stream stream, const GeluForward<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::gelu_forward(stream, op);
        return;
    }
    parallel_ranges(op.n, element_grain,
                    [&](i64 first, i64 last) { value_range(op.y + first, op.u + first, last - first); });
}

template <class T>
void gelu_backward(Stream stream, const GeluBackward<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::gelu_backward(stream, op);
        return;
    }
    parallel_ranges(op.n, element_grain, [&](i64 first, i64 last) {
        backward_range(op.d_x + first, op.d_y + first, op.u + first, last - first);
    });
}

template void bias_gelu_forward<float>(Stream, const BiasGeluForward<float>&);
template void bias_gelu_forward<double>(Stream, const BiasGeluForward<double>&);
template void gelu_forward<float>(Stream, const GeluForward<float>&);
template void gelu_forward<double>(Stream, const GeluForward<double>&);
template void gelu_backward<float>(Stream, const GeluBackward<float>&);
template void gelu_backward<double>(Stream, const GeluBackward<double>&);

}  // namespace ogrom::ops
