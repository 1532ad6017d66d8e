#include "src/data/batch.h"

#include <numeric>

#include "kernels/common/error.h"

namespace ogrom {

BatchView::BatchView(const Batch& batch)
    : B(batch.B),
      T(batch.T),
      tokens(batch.tokens.data()),
      targets(batch.targets.data()),
      loss_mask(batch.loss_mask.data()),
      segments(batch.segments.empty() ? nullptr : batch.segments.data()),
      positions(batch.positions.data()),
      sample(batch.sample.data()),
      unmasked(batch.unmasked) {
    const auto n = static_cast<std::size_t>(B * T);
    OGROM_ASSERT(batch.tokens.size() == n && batch.targets.size() == n && batch.loss_mask.size() == n);
    OGROM_ASSERT(batch.positions.size() == n && (batch.segments.empty() || batch.segments.size() == n));
    OGROM_ASSERT(batch.sample.size() == static_cast<std::size_t>(B));
}

Batch make_batch(i64 B, i64 T) {
    OGROM_ASSERT(B > 0 && T > 0);
    Batch batch;
    batch.B = B;
    batch.T = T;
    const auto cells = static_cast<std::size_t>(B * T);
    batch.tokens.resize(cells);
    batch.targets.resize(cells);
    batch.loss_mask.resize(cells);
    batch.positions.resize(cells);
    for (i64 row = 0; row < B; ++row) {
        std::iota(batch.positions.begin() + row * T, batch.positions.begin() + (row + 1) * T, 0);
    }
    batch.sample.resize(static_cast<std::size_t>(B));
    batch.sample_id.resize(static_cast<std::size_t>(B));
    return batch;
}

}  // namespace ogrom
