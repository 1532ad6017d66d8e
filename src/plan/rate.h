// The matrix-product rate of this rank, measured with the threads of the run: the limit that every throughput line is
// compared with. y[m, n] = a[m, k] b[n, k]^T, 2 m n k flops: on the CPU 1024 x 3072 x 768 (4.8 Gflop), on a GPU 8192 x
// 8192 x 8192 (1.1 Tflop; fp64 half of each side).
#pragma once
#include <string>

#include "kernels/common/stream.h"

#include "src/comm/communicator.h"
#include "src/device/select.h"

namespace ogrom {

// Flop/s, best of the repetitions that fit into 0.1 s (at least two, after one to warm up). T: float, double, Bf16,
// Fp16.
template <class T>
double measure_matmul_rate(const Device& device, Stream stream);
double measure_matmul_rate(Dtype type, const Device& device, Stream stream);

// Bytes per second between page-locked host memory and the GPU, each way alone: the best of at least two copies of
// 256 MiB within 0.1 s. 0 on the CPU.
struct CopyRates {
    double to_device = 0, to_host = 0;
};
CopyRates measure_copy_rates(const Device& device, Stream stream);

// What the fixed order of numerics.deterministic costs: one bucket of `elements` fp32 reduced in either order, the best
// of three, as text for the plan. Collective over dp; empty where there is one rank. Frees what it takes.
std::string order_cost(Communicator& dp, i64 elements, const Device& device, Stream stream);

}  // namespace ogrom
