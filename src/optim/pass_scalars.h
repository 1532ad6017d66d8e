// What changes from step to step and from micro-batch to micro-batch in a pass that was recorded once: read, and added
// to, where the kernels run.
#pragma once
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

#include "src/device/arena.h"
#include "src/device/ledger.h"

namespace ogrom {

class PassScalars {
public:
    // Lines "pass.scalars" and "pass.scalars.host", on a GPU alone.
    static void declare(Ledger& ledger, Backend backend);
    PassScalars(Arena& arena, Stream stream);

    // Enqueues the values of a step. The host must have waited for the stream since the last call.
    void set(double loss_scale, i64 step);
    // Before and after a pass that makes losses: clears their sum, and copies it to `to`.
    void clear_loss();
    void take_loss(double* to);

    [[nodiscard]] const double* loss_scale_at() const { return &there_->loss_scale; }
    [[nodiscard]] const u32* step_at() const { return &there_->step; }
    [[nodiscard]] double* loss_at() const { return &there_->loss; }

private:
    struct Values {
        double loss_scale = 0, loss = 0;
        u32 step = 0, unused = 0;
    };
    Stream stream_;
    Values* there_ = nullptr;
    Values* host_ = nullptr;
};

}  // namespace ogrom
