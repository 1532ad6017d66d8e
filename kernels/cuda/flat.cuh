// Bodies over a flat range: packs, then the last elements one by one.
#pragma once
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace ogrom::cuda {

// Body<V> is constructed from (args..., first element) and called with the number of a pack.
template <class T, template <class, int> class Body, class... Args>
void for_each_flat(Stream stream, i64 n, bool aligned, const char* operation, const Args&... args) {
    constexpr int V = wide<T>;
    const i64 packs = aligned ? n / V : 0;
    for_each(stream, packs, Body<T, V>{args..., 0}, operation);
    for_each(stream, n - packs * V, Body<T, 1>{args..., packs * V}, operation);
}

}  // namespace ogrom::cuda
