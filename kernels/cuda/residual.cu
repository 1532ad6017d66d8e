#include "kernels/cuda/dropout.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"

namespace ogrom::cuda {
namespace {

template <class T, int V>
struct BiasBody {
    ops::AddBias<T> op;
    RowPacks<V> packs;

    __device__ void operator()(i64 i) const {
        const auto place = packs.place(i);
        T* y = op.y + place.row * op.ldy + place.column;
        Values<T, V> sum = load<V>(y);
        const Values<T, V> bias = load<V>(op.bias + place.column);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            sum.at[v] += bias.at[v];
        }
        store<V>(y, sum);
    }
};

template <class T, int V>
struct ResidualBody {
    ops::ResidualForward<T> op;
    RowPacks<V> packs;
    Mask mask;

    __device__ void operator()(i64 i) const {
        const auto place = packs.place(i);
        const i64 start = place.row * op.C + place.column;
        Values<T, V> y = load<V>(op.x + start);
        Values<T, V> branch = load<V>(op.branch + start);
        if (op.bias != nullptr) {
            const Values<T, V> bias = load<V>(op.bias + place.column);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                branch.at[v] += bias.at[v];
            }
        }
        if (mask.spec.p > 0) {
            mask.apply(branch, mask.row_element(place.row) + place.column);
        }
#pragma unroll
        for (int v = 0; v < V; ++v) {
            y.at[v] += branch.at[v];
        }
        store<V>(op.y + start, y);
    }
};

template <class T, int V>
struct DropoutBody {
    ops::DropoutBackward<T> op;
    RowPacks<V> packs;
    Mask mask;

    __device__ void operator()(i64 i) const {
        const auto place = packs.place(i);
        const i64 start = place.row * op.C + place.column;
        Values<T, V> d = load<V>(op.d_y + start);
        mask.apply(d, mask.row_element(place.row) + place.column);
        store<V>(op.d_branch + start, d);
    }
};

}  // namespace

template <class T>
void add_bias(Stream stream, const ops::AddBias<T>& op) {
    if (op.bias == nullptr) {
        return;
    }
    const bool fits = op.cols % wide<T> == 0 && op.ldy % wide<T> == 0;
    with_width<T>(fits && aligned16(op.y, op.bias), [&](auto width) {
        constexpr int V = decltype(width)::value;
        const RowPacks<V> packs(op.rows, op.cols);
        for_each(stream, packs.count, BiasBody<T, V>{op, packs}, "add_bias");
    });
}

template <class T>
void residual_forward(Stream stream, const ops::ResidualForward<T>& op) {
    with_width<T>(aligned16(op.y, op.x, op.branch, op.bias) && op.C % wide<T> == 0, [&](auto width) {
        constexpr int V = decltype(width)::value;
        const RowPacks<V> packs(op.B * op.T_, op.C);
        for_each(stream, packs.count, ResidualBody<T, V>{op, packs, Mask(op)}, "residual_forward");
    });
}

template <class T>
void dropout_backward(Stream stream, const ops::DropoutBackward<T>& op) {
    if (op.dropout.p == 0) {
        copy(stream, op.d_branch, op.d_y, op.B * op.T_ * op.C);
        return;
    }
    with_width<T>(aligned16(op.d_branch, op.d_y) && op.C % wide<T> == 0, [&](auto width) {
        constexpr int V = decltype(width)::value;
        const RowPacks<V> packs(op.B * op.T_, op.C);
        for_each(stream, packs.count, DropoutBody<T, V>{op, packs, Mask(op)}, "dropout_backward");
    });
}

template void add_bias(Stream, const ops::AddBias<float>&);
template void add_bias(Stream, const ops::AddBias<double>&);
template void add_bias(Stream, const ops::AddBias<Bf16>&);
template void add_bias(Stream, const ops::AddBias<Fp16>&);
template void residual_forward(Stream, const ops::ResidualForward<float>&);
template void residual_forward(Stream, const ops::ResidualForward<double>&);
template void residual_forward(Stream, const ops::ResidualForward<Bf16>&);
template void residual_forward(Stream, const ops::ResidualForward<Fp16>&);
template void dropout_backward(Stream, const ops::DropoutBackward<float>&);
template void dropout_backward(Stream, const ops::DropoutBackward<double>&);
template void dropout_backward(Stream, const ops::DropoutBackward<Bf16>&);
template void dropout_backward(Stream, const ops::DropoutBackward<Fp16>&);

}  // namespace ogrom::cuda
