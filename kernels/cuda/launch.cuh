// Launching kernels: stream, grid, errors.
#pragma once
#include <algorithm>
#include <cuda_runtime.h>
#include <string>

#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom::cuda {

inline cudaStream_t native(Stream stream) {
    return static_cast<cudaStream_t>(stream.native);
}

// Throws (peer) with what was called, the error's text and its name.
inline void check(cudaError_t status, const char* call, SourcePlace where = SourcePlace::current()) {
    if (status != cudaSuccess) {
        static_cast<void>(cudaGetLastError());  // not to be met again by a later check
        fail(ExitCode::peer,
             std::string(call) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")", where);
    }
}

// After each launch; errors of execution appear at the next synchronisation.
inline void check_launch(const char* operation, SourcePlace where = SourcePlace::current()) {
    check(cudaGetLastError(), operation, where);
}

// Blocks of a grid that strides over the rest when there is more.
inline unsigned grid_of(i64 blocks, i64 most = i64{1} << 30) {
    return static_cast<unsigned>(std::min(blocks, most));
}

inline constexpr int flat_threads = 256;

template <class Body>
__global__ void __launch_bounds__(flat_threads) each(i64 count, Body body) {
    const i64 step = static_cast<i64>(gridDim.x) * flat_threads;
    for (i64 i = static_cast<i64>(blockIdx.x) * flat_threads + threadIdx.x; i < count; i += step) {
        body(i);
    }
}

// body(i) for i in [0, count), in any order.
template <class Body>
void for_each(Stream stream, i64 count, const Body& body, const char* operation) {
    if (count > 0) {
        each<<<grid_of(ceil_div(count, flat_threads)), flat_threads, 0, native(stream)>>>(count, body);
        check_launch(operation);
    }
}

}  // namespace ogrom::cuda
