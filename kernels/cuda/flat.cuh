// Bodies over a flat range: packs, then the last elements one by one.
#pragma once
#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace ogrom::cuda {

// make(integral_constant<int, W>, first element) gives a body that is called with the number of a pack of W elements;
// W = V for the packs, 1 for the rest.
template <int V, class Make>
void for_each_flat(Stream stream, i64 n, bool aligned, const char* operation, const Make& make) {
    const i64 packs = aligned ? n / V : 0;
    for_each(stream, packs, make(std::integral_constant<int, V>{}, i64{0}), operation);
    for_each(stream, n - packs * V, make(std::integral_constant<int, 1>{}, packs * V), operation);
}

}  // namespace ogrom::cuda
