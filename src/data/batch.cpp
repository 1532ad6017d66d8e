#include "src/data/batch.h"

#include <numeric>

#include "kernels/common/error.h"

namespace ogrom {

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
