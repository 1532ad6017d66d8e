#include "kernels/cuda/flat.cuh"
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/ops.h"

namespace ogrom::cuda {
namespace {

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
            u.at[v] = stored<T>(u.at[v] + bias.at[v]);
            y.at[v] = Gelu::value<T>(u.at[v]);
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
            x.at[v] = Gelu::value<T>(x.at[v]);
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
            d.at[v] *= Gelu::derivative<T>(x.at[v]);
        }
        store<V>(d_x + i, d);
    }
};

}  // namespace

template <class T>
void gelu_forward(Stream stream, const ops::GeluForward<T>& op) {
    for_each_flat<wide<T>>(stream, op.n, aligned16(op.y, op.u), "gelu_forward", [&](auto width, i64 first) {
        return ValueBody<T, decltype(width)::value>{op.y, op.u, first};
    });
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
    for_each_flat<wide<T>>(stream, op.n, aligned16(op.d_x, op.d_y, op.u), "gelu_backward", [&](auto width, i64 first) {
        return DerivativeBody<T, decltype(width)::value>{op.d_x, op.d_y, op.u, first};
    });
}

template void bias_gelu_forward(Stream, const ops::BiasGeluForward<float>&);
template void bias_gelu_forward(Stream, const ops::BiasGeluForward<double>&);
template void bias_gelu_forward(Stream, const ops::BiasGeluForward<Bf16>&);
template void bias_gelu_forward(Stream, const ops::BiasGeluForward<Fp16>&);
template void gelu_forward(Stream, const ops::GeluForward<float>&);
template void gelu_forward(Stream, const ops::GeluForward<double>&);
template void gelu_forward(Stream, const ops::GeluForward<Bf16>&);
template void gelu_forward(Stream, const ops::GeluForward<Fp16>&);
template void gelu_backward(Stream, const ops::GeluBackward<float>&);
template void gelu_backward(Stream, const ops::GeluBackward<double>&);
template void gelu_backward(Stream, const ops::GeluBackward<Bf16>&);
template void gelu_backward(Stream, const ops::GeluBackward<Fp16>&);

}  // namespace ogrom::cuda
