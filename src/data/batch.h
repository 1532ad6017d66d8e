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

// The same where the kernels read it: of a host batch (which must stay), or of a copy of it on the device
// (model/batch_upload). `segments` may be null.
struct BatchView {
    BatchView() = default;
    // NOLINTNEXTLINE(google-explicit-constructor): on the CPU a batch is its own view.
    BatchView(const Batch& batch);  // every field must have the extents above

    i64 B = 0, T = 0;
    const std::int32_t* tokens = nullptr;
    const std::int32_t* targets = nullptr;
    const std::uint8_t* loss_mask = nullptr;
    const std::int32_t* segments = nullptr;
    const std::int32_t* positions = nullptr;
    const i64* sample = nullptr;
    i64 unmasked = 0;
};

// B x T of one segment per sample: ids, mask and sample ids 0, positions 0 .. T-1 in each row.
Batch make_batch(i64 B, i64 T);

}  // namespace ogrom
