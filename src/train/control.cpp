#include "src/train/control.h"

#include <array>
#include <vector>

#include "kernels/common/fault.h"

#include "src/train/step.h"

namespace ogrom {
namespace {

// Sums in rank order on every rank: the same bits everywhere.
void sum_in_order(Communicator& world, std::span<double> values, std::string_view label) {
    const i64 count = static_cast<i64>(values.size());
    std::vector<double> scratch(static_cast<std::size_t>(fixed_order_scratch(count, world.size())));
    world.all_reduce(values.data(), count, Dtype::fp64, ReduceOp::sum, ReduceOrder::fixed, scratch.data(), label)
        .wait();
}

}  // namespace

StepControl agree_control(const Mesh& mesh, std::span<const Batch> batches, Wish wish, Writer writer) {
    std::array<double, 3> values = {0, wish == Wish::stop ? 1.0 : 0.0, writer == Writer::busy ? 1.0 : 0.0};
    if (mesh.place.pp == 0 && mesh.place.tp == 0) {  // every rank of a data index has the same batches
        for (const Batch& batch : batches) {
            values[0] += static_cast<double>(batch.unmasked);  // whole numbers below 2^53: exact
        }
    }
    sum_in_order(*mesh.world, values, "step control");
    return {static_cast<i64>(values[0]), values[1] > 0, values[2] == 0};
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

template <class T>
double agree_loss(Engine<T>& engine, double loss_sum, i64 targets) {
    std::array<double, 1> sum = {engine.has_loss() ? loss_sum : 0.0};
    sum_in_order(engine.world, sum, "loss");
    return targets == 0 ? 0 : sum[0] / static_cast<double>(targets);
}

template <class T>
i64 schedule_step(const Engine<T>& engine) {
    return fault_active("lr_advanced_twice") ? engine.step + engine.resumed_at : engine.step;
}

template <class T>
void leave_out(Engine<T>& engine, StepResult& result, LossScaling::Outcome outcome) {
    result.skipped = true;
    result.overflow = outcome == LossScaling::Outcome::overflow;
    ++engine.skipped;
    if (!result.overflow) {
        result.nonfinite = engine.units.agree_nonfinite(engine.world, engine.table);
        ++engine.consecutive_skips;
    }
}

template double agree_loss<float>(Engine<float>&, double, i64);
template double agree_loss<double>(Engine<double>&, double, i64);
template double agree_loss<Bf16>(Engine<Bf16>&, double, i64);
template double agree_loss<Fp16>(Engine<Fp16>&, double, i64);
template i64 schedule_step<float>(const Engine<float>&);
template i64 schedule_step<double>(const Engine<double>&);
template i64 schedule_step<Bf16>(const Engine<Bf16>&);
template i64 schedule_step<Fp16>(const Engine<Fp16>&);
template void leave_out<float>(Engine<float>&, StepResult&, LossScaling::Outcome);
template void leave_out<double>(Engine<double>&, StepResult&, LossScaling::Outcome);
template void leave_out<Bf16>(Engine<Bf16>&, StepResult&, LossScaling::Outcome);
template void leave_out<Fp16>(Engine<Fp16>&, StepResult&, LossScaling::Outcome);

}  // namespace ogrom
