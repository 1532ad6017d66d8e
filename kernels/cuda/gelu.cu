#include "kernels/cuda/flat.cuh"
#include "kernels/cuda/ops.h"

namespace ogrom::cuda {
namespace {

constexpr double sqrt_2_over_pi = 0.79788456080286535588;
constexpr double cubic = 0.044715;

// e^-2k, k = sqrt(2/pi) (u + 0.044715 u^3), as in kernels/cpu/gelu.cpp.
template <class T>
__device__ T exponential(T u) {
    return exp(static_cast<T>(-2 * sqrt_2_over_pi) * u * (T(1) + static_cast<T>(cubic) * u * u));
}

template <class T>
__device__ T value(T u) {
    return u / (T(1) + exponential(u));
}

// s + u s (1 - s) 2 dk/du, s = 1 / (1 + e^-2k); beyond |u| = 9.9 the value at 9.9. A NaN passes the comparisons.
template <class T>
__device__ T derivative(T u) {
    constexpr T most = T(9.9);
    const T v = u > most ? most : (u < -most ? -most : u);
    const T e = exponential(v);
    const T s = T(1) / (T(1) + e);
    const T slope = static_cast<T>(2 * sqrt_2_over_pi) * (T(1) + static_cast<T>(3 * cubic) * v * v);
    return s + v * slope * (s * (s * e));
}

template <class T, int V>
struct BiasGeluBody {
    ops::BiasGeluForward<T> op;
    RowPacks<V> packs;

    __device__ void operator()(i64 i) const {
        const auto place = packs.place(i);
        const i64 start = place.row * op.F + place.column;
        Values<T, V> u = load<V>(op.x + start);
        const Values<T, V> bias = load<V>(op.bias + place.column);
        Values<T, V> y;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            u.at[v] += bias.at[v];
            y.at[v] = value(u.at[v]);
        }
        store<V>(op.x + start, u);
        store<V>(op.y + start, y);
    }
};

template <class T, int V>
struct ValueBody {
    T* y;
    const T* u;
    i64 first;

    __device__ void operator()(i64 pack) const {
        const i64 i = first + pack * V;
        Values<T, V> x = load<V>(u + i);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            x.at[v] = value(x.at[v]);
        }
        store<V>(y + i, x);
    }
};

template <class T, int V>
struct DerivativeBody {
    T* d_x;
    const T* d_y;
    const T* u;
    i64 first;

    __device__ void operator()(i64 pack) const {
        const i64 i = first + pack * V;
        Values<T, V> d = load<V>(d_y + i);
        const Values<T, V> x = load<V>(u + i);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            d.at[v] *= derivative(x.at[v]);
        }
        store<V>(d_x + i, d);
    }
};

}  // namespace

template <class T>
void gelu_forward(Stream stream, const ops::GeluForward<T>& op) {
    for_each_flat<T, ValueBody>(stream, op.n, aligned16(op.y, op.u), "gelu_forward", op.y, op.u);
}

template <class T>
void bias_gelu_forward(Stream stream, const ops::BiasGeluForward<T>& op) {
    if (op.bias == nullptr) {
        gelu_forward<T>(stream, {op.y, op.x, op.rows * op.F});
        return;
    }
    with_width<T>(aligned16(op.y, op.x, op.bias) && op.F % wide<T> == 0, [&](auto width) {
        constexpr int V = decltype(width)::value;
        const RowPacks<V> packs(op.rows, op.F);
        for_each(stream, packs.count, BiasGeluBody<T, V>{op, packs}, "bias_gelu_forward");
    });
}

template <class T>
void gelu_backward(Stream stream, const ops::GeluBackward<T>& op) {
    for_each_flat<T, DerivativeBody>(stream, op.n, aligned16(op.d_x, op.d_y, op.u), "gelu_backward", op.d_x, op.d_y,
                                     op.u);
}

template void bias_gelu_forward(Stream, const ops::BiasGeluForward<float>&);
template void bias_gelu_forward(Stream, const ops::BiasGeluForward<double>&);
template void gelu_forward(Stream, const ops::GeluForward<float>&);
template void gelu_forward(Stream, const ops::GeluForward<double>&);
template void gelu_backward(Stream, const ops::GeluBackward<float>&);
template void gelu_backward(Stream, const ops::GeluBackward<double>&);

}  // namespace ogrom::cuda
