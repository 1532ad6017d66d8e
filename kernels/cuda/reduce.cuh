// Sums over the threads of a group of warps, in a fixed order; every thread gets the result.
#pragma once
#include "kernels/common/extents.h"

namespace ogrom::cuda {

inline constexpr unsigned all_lanes = 0xFFFFFFFFU;

template <class T>
__device__ T warp_sum(T value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(all_lanes, value, distance);
    }
    return value;
}

// Over the `Warps` neighbouring warps of the caller's group. `slots` (shared, one for each warp of the block) must not
// be in use: callers alternate between two ranges. All threads of the block call it.
template <int Warps, class T>
__device__ T group_sum(T value, T* slots) {
    value = warp_sum(value);
    if constexpr (Warps > 1) {
        const int warp = static_cast<int>(threadIdx.x) / 32;
        if (threadIdx.x % 32 == 0) {
            slots[warp] = value;
        }
        __syncthreads();
        const T* group = slots + warp / Warps * Warps;
        value = group[0];
#pragma unroll
        for (int w = 1; w < Warps; ++w) {
            value += group[w];
        }
    }
    return value;
}

}  // namespace ogrom::cuda
