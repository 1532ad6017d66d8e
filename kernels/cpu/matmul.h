// Inside of ops/matmul on the CPU: the two ways of a product (OpenBLAS, and our own packed product on processors with
// AVX-512), which of them is taken, and how threads share it. Exposed for tests and benchmarks.
#pragma once
#include <string_view>

#include "kernels/ops/matmul.h"

namespace ogrom::cpu {

// The product as CBLAS calls of at most `limit` in each extent, k ascending. Row strides above the int range are
// refused.
template <class T>
void matmul_in_pieces(const ops::Matmul<T>& op, i64 limit);

enum class MatmulPath { openblas, own };

// True where the processor has the instructions of our own product.
bool own_matmul_runs();

// The path that OGROM_MATMUL=`wish` asks for; empty: own where it runs. Throws (usage) on another word, or on own where
// it does not run.
MatmulPath matmul_path(std::string_view wish, bool own_runs);

// The path of this process: the environment is read once.
MatmulPath matmul_path();

// True when our own product is the faster one; a function of the shape alone.
bool own_matmul_pays(const ops::Matmul<float>& op);

// How `rows` x `columns` threads share y: the product of the two is the number of threads.
struct MatmulGrid {
    int rows, columns;
};
MatmulGrid matmul_grid(i64 m, i64 n, int threads);

// Our own product for every extent >= 1 and any strides; call only where own_matmul_runs(). With the OpenMP team, or
// alone inside a parallel region. Bits do not depend on the number of threads. Throws (memory) without packing memory.
void matmul_own(const ops::Matmul<float>& op);

}  // namespace ogrom::cpu
