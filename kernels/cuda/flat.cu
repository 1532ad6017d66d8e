#include "kernels/cuda/flat.cuh"
#include "kernels/cuda/ops.h"

namespace ogrom::cuda {
namespace {

template <class T, int V>
struct AddBody {
    T* y;
    const T* x;
    i64 first;

    __device__ void operator()(i64 pack) const {
        const i64 i = first + pack * V;
        Values<T, V> sum = load<V>(y + i);
        const Values<T, V> added = load<V>(x + i);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            sum.at[v] += added.at[v];
        }
        store<V>(y + i, sum);
    }
};

}  // namespace

template <class T>
void add(Stream stream, T* y, const T* x, i64 n) {
    for_each_flat<T, AddBody>(stream, n, aligned16(y, x), "add", y, x);
}

template <class T>
void copy(Stream stream, T* y, const T* x, i64 n) {
    if (y != x && n > 0) {
        check(cudaMemcpyAsync(y, x, static_cast<std::size_t>(n) * sizeof(T), cudaMemcpyDeviceToDevice, native(stream)),
              "copy");
    }
}

template void add(Stream, float*, const float*, i64);
template void add(Stream, double*, const double*, i64);
template void copy(Stream, float*, const float*, i64);
template void copy(Stream, double*, const double*, i64);

}  // namespace ogrom::cuda
