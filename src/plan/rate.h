// The matrix-product rate of this rank, measured with the threads of the run: the limit that every throughput line is
// compared with. y[1024, 3072] = a[1024, 768] b[3072, 768]^T, 2 m n k = 4.8 Gflop a product.
#pragma once
#include "kernels/common/stream.h"

namespace ogrom {

// Flop/s, best of the repetitions that fit into 0.1 s (at least two, after one to warm up). T: float | double.
template <class T>
double measure_matmul_rate(Stream stream);

}  // namespace ogrom
