// The door between the dispatch of the product (matmul_own.cpp) and its AVX-512 code (matmul_avx512.cpp, compiled with
// -march=x86-64-v4). It includes nothing of std, so that no wide instruction can leak into code of the rest of the
// program.
//
// Design: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34(3), 2008, in the form
// of BLIS (Van Zee and van de Geijn, ACM TOMS 41(3), 2015). op(b) is packed by kc x nc into panels of `tile_columns`
// columns (they wait in L3), op(a) by mc x kc into panels of `tile_rows` rows (L2); a tile of tile_rows x tile_columns
// sums lives in registers while one panel of each passes through L1.
#pragma once
#include "kernels/common/extents.h"

namespace ogrom::cpu {

// 14 x 2 vectors of sums, 2 vectors of b, one value of a: 31 of the 32 registers.
constexpr i64 tile_rows = 14;
constexpr i64 tile_columns = 32;
// Largest blocks: 420 KiB of a in L2 (1 MiB, which the panels pass through as well), 3 MiB of b in L3 (8 cores often
// share 32 MiB). A pair of panels is 138 KiB; L2 feeds L1 the 184 bytes per 14 cycles that this takes, and a deep block
// visits y less often, which is worth more: 5 % from 512 to 768.
constexpr i64 block_depth = 768;
constexpr i64 block_rows = 10 * tile_rows;
constexpr i64 block_columns = 32 * tile_columns;
// With few rows each panel of b is used a few times only: it should still be in L2.
constexpr i64 few_rows = 4 * tile_rows;
constexpr i64 block_columns_of_few_rows = 4 * tile_columns;

// Floats of packing memory of one thread: 3.4 MiB.
constexpr i64 packing_floats = block_depth * (block_rows + block_columns);

// How an operand lies: element (i, l) of op(a), or (j, l) of op(b) where l runs over the sum, is at
// start[i * step + l * depth_step]; one of the two steps is 1.
struct Operand {
    const float* start;
    i64 step;
    i64 depth_step;
};

// y[rows, columns] = alpha * op(a) op(b) + beta * y; beta = 0: y is not read. Extents >= 1.
struct ProductJob {
    float* y;
    i64 ldy;
    Operand a, b;
    i64 rows, columns, depth;
    float alpha, beta;
    float* packing;  // packing_floats, 64-byte aligned
};

// One thread's share. The order of each sum depends on depth alone: blocks of equal depth (the last may be shorter),
// ascending inside a block, blocks added to y in ascending order.
void product_avx512(const ProductJob& job);

}  // namespace ogrom::cpu
