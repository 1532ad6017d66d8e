#include "kernels/ops/flat.h"

#include <algorithm>

#include "kernels/common/fault.h"
#include "kernels/common/parallel.h"
#include "kernels/cuda/ops.h"

namespace ogrom::ops {

template <class T>
void add(Stream stream, T* y, const T* x, i64 n) {
    if (stream.backend == Backend::cuda) {
        cuda::add(stream, y, x, n);
        return;
    }
    if (fault_active("add_last_element_lost")) {
        n -= 1;
    }
    parallel_ranges(n, parallel_grain, [&](i64 first, i64 last) {
        for (i64 i = first; i < last; ++i) {
            y[i] += x[i];
        }
    });
}

template <class T>
void copy(Stream stream, T* y, const T* x, i64 n) {
    if (stream.backend == Backend::cuda) {
        cuda::copy(stream, y, x, n);
        return;
    }
    if (y == x) {
        return;
    }
    parallel_ranges(n, parallel_grain, [&](i64 first, i64 last) { std::copy(x + first, x + last, y + first); });
}

template void add<float>(Stream, float*, const float*, i64);
template void add<double>(Stream, double*, const double*, i64);
template void copy<float>(Stream, float*, const float*, i64);
template void copy<double>(Stream, double*, const double*, i64);

}  // namespace ogrom::ops
