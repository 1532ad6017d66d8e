// Softmax cross-entropy, forward and backward fused, in place on the logits.
//   loss_r = log sum_{v < vocabulary} exp(z_rv) - z_r,target   for rows with mask != 0
//   z_rv := mask_r * scale * (softmax(z_r)_v - [v == target_r])   (v < vocabulary; 0 in the padding columns)
// loss_sum (double) += sum of loss_r over unmasked rows, in ascending r: repeatable. Masked rows give exactly 0
// gradient and no loss, whatever their logits. 5 rows V flops. `gradient` = none leaves the logits alone (evaluation).
//
// The same over ranks that each hold some columns (vocabulary-parallel, Shoeybi et al. 2019), in three calls on one
// CrossEntropyPart with a reduction over the ranks after each of the first two:
//   cross_entropy_max     max_r = max_v z_rv            then all-reduce max   of max[rows]
//   cross_entropy_sum     sums_r = sum_v exp(z_rv - max_r), sums_{rows + r} = z_r,target where it is here, else 0;
//                         z_rv := exp(z_rv - max_r) where the gradient is asked for
//                                                       then all-reduce sum   of sums[2 rows]
//   cross_entropy_finish  loss_sum += log sums_r - (sums_{rows + r} - max_r), the same on every rank;
//                         z_rv := mask_r * scale * (z_rv / sums_r - [v == target_r])
// 1, 3 and 1 rows V flops for V columns here. With all columns on one rank: the bits of the fused call. A rank without
// a true column gives -Inf and 0. Sent per row: sizeof(StatisticOf<T>) for the maximum, 16 bytes for the sums.
#pragma once
#include <cstdint>

#include "kernels/common/dtype.h"
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom::ops {

enum class Gradient { none, in_place };

template <class T>
struct CrossEntropy {
    T* logits;                    // [rows, ld]
    const std::int32_t* targets;  // [rows], 0 <= target < vocabulary where unmasked
    const std::uint8_t* mask;     // [rows], 1 = counts; null = all count
    i64 rows, vocabulary, padded_vocabulary, ld;
    double scale;  // 1 / unmasked targets of the global batch (B05)
    Gradient gradient;
    double* loss_sum;                  // added to
    const double* scale_at = nullptr;  // where the kernel runs; overrides `scale` when set
};
template <class T>
void cross_entropy(Stream stream, const CrossEntropy<T>& op);

template <class T>
struct CrossEntropyPart {
    T* logits;                    // [rows, ld], this rank's columns
    const std::int32_t* targets;  // [rows] of the whole vocabulary, 0 <= target < vocabulary where unmasked
    const std::uint8_t* mask;     // [rows], 1 = counts; null = all count
    i64 rows, ld;
    i64 columns;         // true columns here, >= 0
    i64 padded_columns;  // columns here with the padding, whose gradient becomes 0
    i64 first_column;    // column of the vocabulary that is column 0 here
    i64 vocabulary;      // true columns of all ranks
    double scale;        // as above
    Gradient gradient;
    StatisticOf<T>* max;               // [rows]
    double* sums;                      // [2, rows]
    double* loss_sum;                  // added to
    const double* scale_at = nullptr;  // as above
};
template <class T>
void cross_entropy_max(Stream stream, const CrossEntropyPart<T>& op);
template <class T>
void cross_entropy_sum(Stream stream, const CrossEntropyPart<T>& op);
template <class T>
void cross_entropy_finish(Stream stream, const CrossEntropyPart<T>& op);

}  // namespace ogrom::ops
