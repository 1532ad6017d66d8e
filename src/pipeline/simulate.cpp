#include "src/pipeline/simulate.h"

#include <algorithm>

#include "kernels/common/error.h"

#include "src/pipeline/replay.h"

namespace ogrom {

ScheduleCosts even_costs(const ScheduleSpec& spec, const PassCosts& stage, double transfer) {
    const auto chunks = static_cast<double>(spec.virtual_stages);
    const PassCosts chunk = {stage.forward / chunks, stage.backward_input / chunks, stage.backward_weight / chunks};
    const std::vector<PassCosts> one_stage(static_cast<std::size_t>(spec.virtual_stages), chunk);
    return {std::vector<std::vector<PassCosts>>(static_cast<std::size_t>(spec.stages), one_stage), transfer};
}

ScheduleCosts layer_costs(std::span<const std::vector<i64>> layers, const PassCosts& layer, const PassCosts& head,
                          double transfer) {
    ScheduleCosts costs{.passes = {}, .transfer = transfer};
    for (const std::vector<i64>& chunks : layers) {
        std::vector<PassCosts>& stage = costs.passes.emplace_back();
        for (const i64 count : chunks) {
            const auto n = static_cast<double>(count);
            stage.push_back({n * layer.forward, n * layer.backward_input, n * layer.backward_weight});
        }
    }
    OGROM_ASSERT(!costs.passes.empty() && !costs.passes.back().empty());
    PassCosts& last = costs.passes.back().back();
    last.forward += head.forward;
    last.backward_input += head.backward_input;
    last.backward_weight += head.backward_weight;
    return costs;
}

Simulation simulate(const ScheduleSpec& spec, std::span<const StageSchedule> stages, const ScheduleCosts& costs,
                    SchedulePurpose purpose) {
    ScheduleReplay replay(spec, stages, costs, purpose);
    if (const std::optional<std::string> violation = replay.run()) {
        fail(ExitCode::peer, *violation);
    }
    Simulation result;
    result.stages = replay.spans();
    result.bubble = bubble_of(result.stages);
    for (const std::vector<PassSpan>& stage : result.stages) {
        for (const PassSpan& pass : stage) {
            result.total = std::max(result.total, pass.end);
        }
    }
    return result;
}

}  // namespace ogrom
