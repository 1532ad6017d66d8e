// What a trace says of a pipeline schedule: the passes of one step on all stages, and what they cost.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "src/pipeline/simulate.h"

namespace ogrom {

struct MeasuredSchedule {
    ScheduleSpec spec;
    i64 step = -1;
    std::vector<std::vector<PassSpan>> stages;  // in order of time
};

// The last step of which every stage has all passes; nothing where there is none. `stages[s]`: spans of one rank of
// stage s. Forward passes of an evaluation behind the step are left out.
std::optional<MeasuredSchedule> last_whole_step(const ScheduleSpec& spec,
                                                std::span<const std::vector<TraceSpan>> stages);

// Mean of each kind of pass, by stage and chunk. Transfers are free: what they cost stands in the waits.
ScheduleCosts mean_costs(const MeasuredSchedule& measured);

// The schedule as it would have run with nothing in its way, every pass at the mean of its kind or as long as it was.
enum class PassTimes { mean, own };
Simulation simulate_measured(const MeasuredSchedule& measured, PassTimes times = PassTimes::mean);

}  // namespace ogrom
