// Host threads of a kernel: work is cut into pieces whose borders do not depend on the number of threads, so a result
// that is made per piece is repeatable for any number. Bodies must not throw.
#pragma once
#include <algorithm>
#include <omp.h>

#include "kernels/common/extents.h"

namespace ogrom {

inline int host_threads() {
    return omp_get_max_threads();
}

// body(piece) once for each piece in [0, pieces), neighbours on the same thread.
template <class Body>
void parallel_pieces(i64 pieces, const Body& body) {
    const int threads = static_cast<int>(std::min<i64>(pieces, host_threads()));
    if (threads <= 1) {
        for (i64 piece = 0; piece < pieces; ++piece) {
            body(piece);
        }
        return;
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (i64 piece = 0; piece < pieces; ++piece) {
        body(piece);
    }
}

// body(first, last) over contiguous ranges that cover [0, n); every border but the last is a multiple of `grain`. At
// most one range a thread. For bodies whose elements do not meet (any cut gives the same bits).
template <class Body>
void parallel_ranges(i64 n, i64 grain, const Body& body) {
    const i64 grains = ceil_div(n, grain);
    const i64 ranges = std::min<i64>(grains, host_threads());
    parallel_pieces(ranges, [&](i64 range) {
        const i64 first = range * grains / ranges * grain;
        const i64 last = std::min(n, (range + 1) * grains / ranges * grain);
        body(first, last);
    });
}

// Elements that repay the start of a thread (about 10 us) when each moves a few bytes.
inline constexpr i64 parallel_grain = 8192;

}  // namespace ogrom
