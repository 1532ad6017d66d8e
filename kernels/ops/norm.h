// Sums over flat ranges, repeatable for any number of threads: partial sums in double over fixed blocks of
// 4096 elements counted from the range's start, added in ascending order.
//   sum_of_squares  sum x^2        2 n flops
//   block_squares   the same over blocks of norm_block = 256 elements, whose sums are added exactly: any cut of the
//                   range at multiples of 256, over threads and ranks, in any order, gives one value     2 n flops
//   all_finite      no NaN, no Inf (bits tested: safe under any compiler flag)
//   last_nonfinite  the largest place of one, noted where the operation runs
#pragma once
#include <span>

#include "kernels/common/exact_sum.h"
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom::ops {

template <class T>
double sum_of_squares(Stream stream, const T* x, i64 n);

// Elements of a block; ranks cut a tensor at multiples of it, counted from the tensor's start.
inline constexpr i64 norm_block = 256;

// sum += the sums of squares of the blocks of x[n], which starts on a block border of its tensor; only the tensor's
// last block may be short. A NaN, an Inf or an overflow makes the value NaN.
template <class T>
void block_squares(Stream stream, const T* x, i64 n, ExactSum& sum);

// The same of several such ranges; on a GPU a few launches for all of them.
template <class T>
struct SquaresRange {
    const T* x;
    i64 n;
};
template <class T>
void block_squares(Stream stream, std::span<const SquaresRange<T>> ranges, ExactSum& sum);

template <class T>
bool all_finite(Stream stream, const T* x, i64 n);

// *key := max(*key, base + 1 + i) over the i with x[i] = NaN or Inf; nothing is waited for. `key` stands where the
// operation runs; 0 = none yet.
template <class T>
void last_nonfinite(Stream stream, u64* key, const T* x, i64 n, u64 base);

}  // namespace ogrom::ops
