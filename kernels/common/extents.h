// Integer types of every extent, offset and count. Signed and 64 bits wide everywhere: rows x vocabulary passes 2^31
// on ordinary runs (44,032 x 50,257), parameters pass it on ordinary models.
#pragma once
#include <cstdint>

namespace ogrom {

using i64 = std::int64_t;
using u64 = std::uint64_t;
using u32 = std::uint32_t;

// Smallest multiple of `step` that is >= `value`; value >= 0, step > 0.
constexpr i64 round_up(i64 value, i64 step) {
    return (value + step - 1) / step * step;
}

// Number of pieces of `step` that cover `value`.
constexpr i64 ceil_div(i64 value, i64 step) {
    return (value + step - 1) / step;
}

// Elements from the start of a matrix to its row `row`, `stride` elements between rows.
constexpr i64 row_offset(i64 row, i64 stride) {
    return row * stride;
}

}  // namespace ogrom
