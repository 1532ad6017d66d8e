// The launches of layer norm: a row is held in registers by W warps where its packs fit (rows of up to 16384
// elements of 4 bytes or less, aligned), else a block passes over it several times.
#pragma once
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/reduce.cuh"

namespace ogrom::cuda {

template <class T>
inline constexpr int lane_packs = 64 / (static_cast<int>(sizeof(Math<T>)) * wide<T>);  // 16 registers of each thread
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

// run(integral_constant<int, W>, integral_constant<int, P>): the fewest warps that hold a row in up to 32 registers
// each, then the fewest packs. A row in one warp needs no block to wait for another.
template <class T, class Run>
void with_warps_and_packs(i64 columns, const Run& run) {
    constexpr int most = 2 * lane_packs<T>;
    const i64 packs = ceil_div(columns, wide<T>);
    const auto with_packs = [&](auto warps) {
        constexpr int W = decltype(warps)::value;
        const i64 each = ceil_div(packs, 32 * W);
        if constexpr (W == 1) {
            if (each <= most / 4) {
                run(warps, std::integral_constant<int, most / 4>{});
                return;
            }
            if (each <= most / 2) {
                run(warps, std::integral_constant<int, most / 2>{});
                return;
            }
        }
        if (each <= 3 * most / 4) {
            run(warps, std::integral_constant<int, 3 * most / 4>{});
        } else {
            run(warps, std::integral_constant<int, most>{});
        }
    };
    const i64 warps = ceil_div(packs, 32 * most);
    if (warps <= 1) {
        with_packs(std::integral_constant<int, 1>{});
    } else if (warps <= 2) {
        with_packs(std::integral_constant<int, 2>{});
    } else if (warps <= 4) {
        with_packs(std::integral_constant<int, 4>{});
    } else if (warps <= 8) {
        with_packs(std::integral_constant<int, 8>{});
    } else {
        with_packs(std::integral_constant<int, 16>{});
    }
}

// What backward makes.
enum class NormParts { data, parameters, both };

}  // namespace ogrom::cuda
