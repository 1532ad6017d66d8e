// Comes in: sums in device memory. Goes out: the same on the host, after the one wait of a step.
// Next: train/control.cpp, optim/clip.cpp
#include "src/optim/step_sums.h"

#include <fmt/format.h>

#include "kernels/common/error.h"

#include "src/device/buffer.h"

namespace ogrom {
namespace {

constexpr const char* losses_line = "step.losses";
constexpr const char* norm_line = "step.norm";
constexpr const char* host_losses_line = "step.host.losses";
constexpr const char* host_norm_line = "step.host.norm";

}  // namespace

void StepSums::declare(Ledger& ledger, i64 micro_batches, Backend backend) {
    const i64 losses = micro_batches * static_cast<i64>(sizeof(double));
    const i64 squares = static_cast<i64>(sizeof(ExactSum));
    ledger.add(losses_line, Tier::device, losses, fmt::format("{} micro-batches x 8", micro_batches));
    ledger.add(norm_line, Tier::device, squares, "exact sum of the gradient's squares");
    if (backend == Backend::cuda) {
        ledger.add(host_losses_line, Tier::host, losses, "the losses as the host reads them");
        ledger.add(host_norm_line, Tier::host, squares, "the sum as the host reads it");
    }
}

StepSums::StepSums(Arena& arena, Stream stream)
    : stream_(stream), losses_(arena.take<double>(losses_line)), squares_(arena.take<ExactSum>(norm_line)) {
    const bool apart = stream.backend == Backend::cuda;
    host_losses_ = apart ? arena.take<double>(host_losses_line) : losses_;
    host_squares_ = apart ? arena.take<ExactSum>(host_norm_line) : squares_;
    clear();
}

void StepSums::clear() {
    // All bytes zero is the empty sum.
    set_zero_bytes(stream_, losses_.data(), static_cast<i64>(losses_.size_bytes()));
    set_zero_bytes(stream_, squares_.data(), static_cast<i64>(squares_.size_bytes()));
}

double* StepSums::loss(i64 micro_batch) {
    OGROM_ASSERT(micro_batch >= 0 && micro_batch < static_cast<i64>(losses_.size()));
    return &losses_[static_cast<std::size_t>(micro_batch)];
}

void StepSums::read() {
    copy_bytes(stream_, host_losses_.data(), losses_.data(), static_cast<i64>(losses_.size_bytes()));
    copy_bytes(stream_, host_squares_.data(), squares_.data(), static_cast<i64>(squares_.size_bytes()));
    wait(stream_);
}

double StepSums::loss_sum() const {
    double sum = 0;
    for (const double loss : host_losses_) {
        sum += loss;
    }
    return sum;
}

}  // namespace ogrom
