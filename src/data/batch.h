// One micro-batch of samples, on the host, checked: every token and every unmasked target is < vocabulary.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

struct Batch {
    i64 B = 0, T = 0;
    std::vector<std::int32_t> tokens;     // [B, T]
    std::vector<std::int32_t> targets;    // [B, T], the next token
    std::vector<std::uint8_t> loss_mask;  // [B, T], 1 = counts in the loss
    std::vector<std::int32_t> segments;   // [B, T] document within the sample, or empty = one segment
    std::vector<std::int32_t> positions;  // [B, T]
    std::vector<i64> sample;              // [B] index of the sample within the step's global batch
    std::vector<i64> sample_id;           // [B] global sample index since the start of the run (the cursor's count)
    i64 unmasked = 0;                     // sum of loss_mask
};

// B x T of one segment per sample: ids, mask and sample ids 0, positions 0 .. T-1 in each row.
Batch make_batch(i64 B, i64 T);

}  // namespace ogrom
