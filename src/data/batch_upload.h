// A step's micro-batches where the kernels read them. On the CPU the batches themselves; on a GPU packed into
// page-locked memory and copied by one transfer, in the order of the stream.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "src/data/batch.h"
#include "src/device/arena.h"
#include "src/device/buffer.h"

namespace ogrom {

class BatchUpload {
public:
    // Lines "batch" and "batch.staging" for `count` micro-batches of at most B samples of T, and "batch.current" for
    // one; on a GPU alone.
    static void declare(Ledger& ledger, i64 B, i64 T, i64 count, Backend backend);
    BatchUpload(Arena& arena, Stream stream);

    // Valid until the next call; `batches` must stay until then. The host must have waited for the stream since the
    // last call: its staging is written anew.
    std::vector<BatchView> put(std::span<const Batch> batches);

    // Of a GPU, where a pass is recorded once for all micro-batches: enqueues the copy of one that put() has returned
    // to a place of its own. `batch` as seen there; of equal extents and fields it is the same each time.
    BatchView make_current(const BatchView& batch);

private:
    Stream stream_;
    std::span<std::byte> device_, staging_, current_;
};

}  // namespace ogrom
