// The matrix-product rate of this rank, measured with the threads of the run: the limit that every throughput line is
// compared with. y[1024, 3072] = a[1024, 768] b[3072, 768]^T, 2 m n k = 4.8 Gflop a product.
#pragma once
#include <string>

#include "kernels/common/stream.h"

#include "src/comm/communicator.h"

namespace ogrom {

// Flop/s, best of the repetitions that fit into 0.1 s (at least two, after one to warm up). T: float | double.
template <class T>
double measure_matmul_rate(Stream stream);

// What the fixed order of numerics.deterministic costs: one bucket of `elements` fp32 reduced in either order, the best
// of three, as text for the plan. Collective over dp; empty where there is one rank. Frees what it takes.
std::string order_cost(Communicator& dp, i64 elements);

}  // namespace ogrom
