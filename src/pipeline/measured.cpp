#include "src/pipeline/measured.h"

#include <algorithm>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

#include "src/pipeline/schedule.h"

namespace ogrom {
namespace {

// The passes of the step, cut at the number that its list has; nothing where some are missing.
std::optional<std::vector<PassSpan>> whole_step(const StageSchedule& list, std::span<const TraceSpan> spans, i64 step) {
    const auto wanted = static_cast<std::size_t>(std::count_if(
        list.actions.begin(), list.actions.end(), [](const Action& action) { return is_compute(action.kind); }));
    std::vector<PassSpan> passes = passes_of(spans, step);
    if (passes.size() < wanted) {
        return std::nullopt;
    }
    if (!fault_active("evaluation_in_measured_step")) {
        passes.resize(wanted);
    }
    return passes;
}

}  // namespace

std::optional<MeasuredSchedule> last_whole_step(const ScheduleSpec& spec,
                                                std::span<const std::vector<TraceSpan>> stages) {
    OGROM_ASSERT(static_cast<i64>(stages.size()) == spec.stages);
    const std::vector<StageSchedule> lists = make_stage_schedules(spec);
    i64 last = -1;
    for (const TraceSpan& span : stages.front()) {
        last = std::max(last, span.step);
    }
    for (i64 step = last; step >= 0; --step) {
        MeasuredSchedule measured{spec, step, {}};
        for (std::size_t s = 0; s < stages.size(); ++s) {
            if (auto passes = whole_step(lists[s], stages[s], step)) {
                measured.stages.push_back(std::move(*passes));
            }
        }
        if (measured.stages.size() == stages.size()) {
            return measured;
        }
    }
    return std::nullopt;
}

ScheduleCosts mean_costs(const MeasuredSchedule& measured) {
    const auto chunks = static_cast<std::size_t>(measured.spec.virtual_stages);
    const auto passes = static_cast<double>(measured.spec.micro_batches);  // of each kind and chunk
    ScheduleCosts costs{.passes = {}, .transfer = 0};
    for (const std::vector<PassSpan>& stage : measured.stages) {
        std::vector<PassCosts>& sums = costs.passes.emplace_back(chunks);
        for (const PassSpan& pass : stage) {
            PassCosts& sum = sums.at(static_cast<std::size_t>(pass.chunk));
            double& part = pass.kind == ActionKind::forward           ? sum.forward
                           : pass.kind == ActionKind::backward_weight ? sum.backward_weight
                                                                      : sum.backward_input;  // or the whole of it
            part += (pass.end - pass.start) / passes;
        }
    }
    return costs;
}

Simulation simulate_measured(const MeasuredSchedule& measured, PassTimes times) {
    ScheduleCosts costs = mean_costs(measured);
    if (times == PassTimes::own) {
        for (const std::vector<PassSpan>& stage : measured.stages) {
            std::vector<double>& own = costs.own.emplace_back();
            for (const PassSpan& pass : stage) {
                own.push_back(pass.end - pass.start);
            }
        }
    }
    return simulate(measured.spec, make_stage_schedules(measured.spec), costs);
}

}  // namespace ogrom
