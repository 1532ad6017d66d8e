#include <algorithm>
#include <cuda_runtime.h>

#include "kernels/common/rng.h"
#include "kernels/cuda/philox.h"

namespace ogrom::cuda {
namespace {

__global__ void fill(PhiloxFill op, u32 threshold) {
    const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
    for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < op.count; i += step) {
        const u64 element = op.first + static_cast<u64>(i);
        const u32 word = random_word(op.spec.seed, op.spec.site, ops::dropout_step(op.spec), element);
        if (op.words != nullptr) {
            op.words[i] = word;
        }
        if (op.kept != nullptr) {
            op.kept[i] = word >= threshold ? 1 : 0;
        }
        if (op.normals != nullptr) {
            op.normals[i] = normal_at(op.spec.seed, op.spec.site, element);
        }
    }
}

}  // namespace

void philox_fill(Stream stream, const PhiloxFill& op) {
    if (op.count == 0) {
        return;
    }
    constexpr i64 threads = 256;
    constexpr i64 most_blocks = 4096;  // the loop strides over the rest
    const auto blocks = static_cast<unsigned>(std::min(most_blocks, ceil_div(op.count, threads)));
    fill<<<blocks, static_cast<unsigned>(threads), 0, static_cast<cudaStream_t>(stream.native)>>>(
        op, dropout_threshold(op.spec.p));
    if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) {
        fail(ExitCode::peer,
             std::string("philox_fill: ") + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
    }
}

}  // namespace ogrom::cuda
