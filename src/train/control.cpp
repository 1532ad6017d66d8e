#include "src/train/control.h"

#include <array>
#include <vector>

#include "kernels/common/fault.h"

#include "src/train/step.h"

namespace ogrom {
namespace {

// Sums in rank order on every rank: the same bits everywhere.
void sum_in_order(Communicator& dp, std::span<double> values, std::string_view label) {
    const i64 count = static_cast<i64>(values.size());
    std::vector<double> scratch(static_cast<std::size_t>(fixed_order_scratch(count, dp.size())));
    dp.all_reduce(values.data(), count, Dtype::fp64, ReduceOp::sum, ReduceOrder::fixed, scratch.data(), label).wait();
}

}  // namespace

StepControl agree_control(Communicator& dp, std::span<const Batch> batches, Wish wish) {
    std::array<double, 2> values = {0, wish == Wish::stop ? 1.0 : 0.0};
    for (const Batch& batch : batches) {
        values[0] += static_cast<double>(batch.unmasked);  // whole numbers below 2^53: exact
    }
    sum_in_order(dp, values, "step control");
    return {static_cast<i64>(values[0]), values[1] > 0};
}

double loss_scale(std::span<const Batch> batches, i64 targets, int dp) {
    if (targets == 0) {
        return 0;
    }
    const double micro_batches = static_cast<double>(batches.size());
    if (fault_active("loss_per_micro_batch")) {
        return 1 / (static_cast<double>(batches[0].unmasked) * micro_batches * dp);
    }
    if (fault_active("accumulation_divides_again")) {
        return 1 / (static_cast<double>(targets) * micro_batches);
    }
    return 1 / static_cast<double>(targets);
}

double agree_loss(Communicator& dp, double loss_sum, i64 targets) {
    std::array<double, 1> sum = {loss_sum};
    sum_in_order(dp, sum, "loss");
    return targets == 0 ? 0 : sum[0] / static_cast<double>(targets);
}

}  // namespace ogrom
