#include "src/pipeline/check.h"

#include <fmt/format.h>

#include "src/pipeline/replay.h"

namespace ogrom {

std::optional<std::string> check_schedules(const ScheduleSpec& spec, std::span<const StageSchedule> stages,
                                           SchedulePurpose purpose) {
    if (static_cast<i64>(stages.size()) != spec.stages) {
        return fmt::format("{} lists for {} stages", stages.size(), spec.stages);
    }
    for (std::size_t s = 0; s < stages.size(); ++s) {
        if (static_cast<i64>(stages[s].slots.size()) != spec.virtual_stages) {
            return fmt::format("stage {}: slots for {} chunks, there are {}", s, stages[s].slots.size(),
                               spec.virtual_stages);
        }
    }
    const ScheduleCosts free = even_costs(spec, {}, 0);
    return ScheduleReplay(spec, stages, free, purpose).run();
}

}  // namespace ogrom
