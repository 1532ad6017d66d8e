// Softmax cross-entropy, forward and backward fused, in place on the logits.
//   loss_r = log sum_{v < vocabulary} exp(z_rv) - z_r,target   for rows with mask != 0
//   z_rv := mask_r * scale * (softmax(z_r)_v - [v == target_r])   (v < vocabulary; 0 in the padding columns)
// loss_sum (double) += sum of loss_r over unmasked rows, in ascending r: repeatable. Masked rows give exactly 0
// gradient and no loss, whatever their logits. 5 rows V flops. `gradient` = none leaves the logits alone (evaluation).
#pragma once
#include <cstdint>

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
    double* loss_sum;  // added to
};
template <class T>
void cross_entropy(Stream stream, const CrossEntropy<T>& op);

}  // namespace ogrom::ops
