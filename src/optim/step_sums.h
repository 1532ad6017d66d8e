// What a step adds up where the kernels run and the host reads once: the losses of its micro-batches and the exact sum
// of the squares of its gradient.
#pragma once
#include <span>

#include "kernels/common/exact_sum.h"
#include "kernels/common/stream.h"

#include "src/device/arena.h"
#include "src/device/ledger.h"

namespace ogrom {

class StepSums {
public:
    // Lines "step.losses" (a double for each of `micro_batches`), "step.norm", and on a GPU "step.host".
    static void declare(Ledger& ledger, i64 micro_batches, Backend backend);
    StepSums(Arena& arena, Stream stream);

    void clear();
    // Where the losses of micro-batch m are added, and the squares.
    [[nodiscard]] double* loss(i64 micro_batch);
    [[nodiscard]] ExactSum& squares() { return squares_.front(); }
    // Waits for everything enqueued so far. Before: the two below are of an earlier time.
    void read();
    [[nodiscard]] double loss_sum() const;  // in ascending order of the micro-batches
    [[nodiscard]] const ExactSum& squares_read() const { return host_squares_.front(); }

private:
    Stream stream_;
    std::span<double> losses_, host_losses_;
    std::span<ExactSum> squares_, host_squares_;
};

}  // namespace ogrom
