// The limit that products are measured against: OpenBLAS SGEMM 1024 x 3072 x 768, y = x w^T, with the threads of the
// run.
#pragma once
#include <algorithm>
#include <cblas.h>
#include <chrono>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom::bench {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// FLOP/s, the best of `repeats` calls.
inline double sgemm_rate(int repeats = 12) {
    constexpr int m = 1024, n = 3072, k = 768;
    static const std::vector<float> a(std::size_t{m} * k, 0.5F);
    static const std::vector<float> b(std::size_t{n} * k, 0.25F);
    static std::vector<float> y(std::size_t{m} * n);
    double best = 0;
    for (int i = 0; i < repeats; ++i) {
        const auto start = std::chrono::steady_clock::now();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a.data(), k, b.data(), k, 0, y.data(), n);
        best = std::max(best, 2.0 * m * n * k / seconds_since(start));
    }
    return best;
}

}  // namespace ogrom::bench
