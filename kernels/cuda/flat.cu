#include "kernels/cuda/flat.cuh"
#include "kernels/cuda/ops.h"

namespace ogrom::cuda {
namespace {

template <class Y, class X, int V>
struct AddBody {
    Y* y;
    const X* x;
    i64 first;

    __device__ void operator()(i64 pack) const {
        const i64 i = first + pack * V;
        auto sum = load<V>(y + i);
        const auto added = load<V>(x + i);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            sum.at[v] += added.at[v];
        }
        store<V>(y + i, sum);
    }
};

template <class T, int V>
struct FillBody {
    T* y;
    Math<T> value;
    i64 first;

    __device__ void operator()(i64 pack) const {
        Values<Math<T>, V> values;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values.at[v] = value;
        }
        store<V>(y + first + pack * V, values);
    }
};

template <class To, class From>
__device__ Math<To> converted(From x) {
    if constexpr (is_16_bit<To> && std::is_same_v<From, double>) {
        return odd_rounded(x);
    } else {
        return static_cast<Math<To>>(x);
    }
}

template <class To, class From, int V>
struct CastBody {
    To* y;
    const From* x;
    i64 first;

    __device__ void operator()(i64 pack) const {
        const i64 i = first + pack * V;
        const auto from = load<V>(x + i);
        Values<Math<To>, V> to;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            to.at[v] = converted<To>(from.at[v]);
        }
        store<V>(y + i, to);
    }
};

}  // namespace

template <class Y, class X>
void add(Stream stream, Y* y, const X* x, i64 n) {
    for_each_flat<wide_of<Y, X>>(stream, n, aligned16(y, x), "add", [&](auto width, i64 first) {
        return AddBody<Y, X, decltype(width)::value>{y, x, first};
    });
}

template <class T>
void copy(Stream stream, T* y, const T* x, i64 n) {
    if (y != x && n > 0) {
        check(cudaMemcpyAsync(y, x, static_cast<std::size_t>(n) * sizeof(T), cudaMemcpyDeviceToDevice, native(stream)),
              "copy");
    }
}

template <class T>
void fill(Stream stream, T* y, T value, i64 n) {
    const auto number = static_cast<Math<T>>(value);
    for_each_flat<wide<T>>(stream, n, aligned16(y), "fill", [&](auto width, i64 first) {
        return FillBody<T, decltype(width)::value>{y, number, first};
    });
}

template <class To, class From>
void cast(Stream stream, To* y, const From* x, i64 n) {
    for_each_flat<wide_of<To, From>>(stream, n, aligned16(y, x), "cast", [&](auto width, i64 first) {
        return CastBody<To, From, decltype(width)::value>{y, x, first};
    });
}

template void add(Stream, float*, const float*, i64);
template void add(Stream, double*, const double*, i64);
template void add(Stream, float*, const Bf16*, i64);
template void add(Stream, float*, const Fp16*, i64);
template void copy(Stream, float*, const float*, i64);
template void copy(Stream, double*, const double*, i64);
template void copy(Stream, Bf16*, const Bf16*, i64);
template void copy(Stream, Fp16*, const Fp16*, i64);
template void fill(Stream, float*, float, i64);
template void fill(Stream, double*, double, i64);
template void fill(Stream, Bf16*, Bf16, i64);
template void fill(Stream, Fp16*, Fp16, i64);
template void cast(Stream, float*, const double*, i64);
template void cast(Stream, float*, const Bf16*, i64);
template void cast(Stream, float*, const Fp16*, i64);
template void cast(Stream, double*, const float*, i64);
template void cast(Stream, double*, const Bf16*, i64);
template void cast(Stream, double*, const Fp16*, i64);
template void cast(Stream, Bf16*, const float*, i64);
template void cast(Stream, Fp16*, const float*, i64);
template void cast(Stream, Bf16*, const double*, i64);
template void cast(Stream, Fp16*, const double*, i64);

}  // namespace ogrom::cuda
