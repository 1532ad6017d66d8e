// Plain operations on arena spans.
#pragma once
#include <algorithm>
#include <span>

#include "kernels/common/extents.h"
#include "kernels/common/parallel.h"

namespace ogrom {

// data := 0, every thread of the team its own part.
template <class T>
void set_zero(std::span<T> data) {
    constexpr i64 block = 1 << 16;
    const i64 n = static_cast<i64>(data.size());
    T* const start = data.data();
    parallel_pieces(ceil_div(n, block),
                    [&](i64 b) { std::fill(start + b * block, start + std::min(n, (b + 1) * block), T(0)); });
}

}  // namespace ogrom
