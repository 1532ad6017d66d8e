// The launches of layer norm: a row is held in registers by W warps where its packs fit (rows of up to 16384 fp32
// elements, aligned), else a block passes over it several times.
#pragma once
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/reduce.cuh"

namespace ogrom::cuda {

template <class T>
inline constexpr int lane_packs = 64 / (static_cast<int>(sizeof(T)) * wide<T>);  // 64 bytes of a row for each thread
template <class T>
inline constexpr i64 lane_elements = i64{lane_packs<T>} * wide<T>;
template <class T>
inline constexpr i64 held_columns = 32 * 32 * lane_elements<T>;

// Warps on one row and rows at a time of a block.
template <int W>
inline constexpr int rows_at_a_time = W < 8 ? 8 / W : 1;
template <int W>
inline constexpr int row_threads = 32 * W* rows_at_a_time<W>;

// run(integral_constant<int, W>) with the fewest warps that hold a row.
template <class T, class Run>
void with_warps(i64 columns, const Run& run) {
    const i64 warps = ceil_div(columns, 32 * lane_elements<T>);
    if (warps <= 1) {
        run(std::integral_constant<int, 1>{});
    } else if (warps <= 2) {
        run(std::integral_constant<int, 2>{});
    } else if (warps <= 4) {
        run(std::integral_constant<int, 4>{});
    } else if (warps <= 8) {
        run(std::integral_constant<int, 8>{});
    } else if (warps <= 16) {
        run(std::integral_constant<int, 16>{});
    } else {
        run(std::integral_constant<int, 32>{});
    }
}

// What backward makes.
enum class NormParts { data, parameters, both };

}  // namespace ogrom::cuda
