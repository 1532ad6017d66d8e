// kernels/ops/weight_hash.h: a grid for each run, a sum for each block, added to one word. Addition mod 2^64 has no
// order, so neither has the grid.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

constexpr int hash_threads = 256;
constexpr i64 hash_blocks = 2048;  // at most: each block adds once
constexpr unsigned full_warp = 0xFFFFFFFFU;

template <class T>
__global__ void __launch_bounds__(hash_threads) hash_run(unsigned long long* total, ops::HashRun<T> run) {
    const i64 step = static_cast<i64>(gridDim.x) * hash_threads;
    u64 sum = 0;
#pragma unroll 4
    for (i64 i = run.first + static_cast<i64>(blockIdx.x) * hash_threads + threadIdx.x; i < run.last; i += step) {
        sum += hash_element(run.key, run.index(i), __float_as_uint(static_cast<float>(run.x[i])));
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(full_warp, sum, distance);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(total, static_cast<unsigned long long>(sum));
    }
}

}  // namespace

template <class T>
u64 weight_hash(Stream stream, std::span<const ops::HashRun<T>> runs) {
    auto* total = static_cast<unsigned long long*>(scratch(stream, sizeof(unsigned long long)));
    check(cudaMemsetAsync(total, 0, sizeof(unsigned long long), native(stream)), "cudaMemsetAsync");
    for (const ops::HashRun<T>& run : runs) {
        if (run.last > run.first) {
            hash_run<<<grid_of(ceil_div(run.last - run.first, hash_threads), hash_blocks), hash_threads, 0,
                       native(stream)>>>(total, run);
            check_launch("weight_hash");
        }
    }
    u64 sum = 0;
    check(cudaMemcpyAsync(&sum, total, sizeof sum, cudaMemcpyDeviceToHost, native(stream)), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
    return sum;
}

template u64 weight_hash(Stream, std::span<const ops::HashRun<float>>);
template u64 weight_hash(Stream, std::span<const ops::HashRun<double>>);

}  // namespace ogrom::cuda
