// Proves a set of action lists before they are run.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "src/pipeline/actions.h"

namespace ogrom {

// The lists of all stages together, `stages[s]` for stage s. Holds when
//  - every forward and backward (both halves where it is split) is there exactly once per micro-batch and chunk, after
//    what it depends on, with its receive before and its send behind it; backward passes of a chunk ascend;
//  - no slot, gradient buffer or weight slot is written while it is in use, none is named beyond the counts, all are
//    free at the end;
//  - the n-th send on a channel from one stage to another carries what the n-th receive expects;
//  - the lists run to their end with zero buffering: a send completes only once its receive is posted, a compute action
//    waits for its receive, and memory that is being sent is not written before the send is complete.
// Returns the first violation in words, or nothing. O(actions).
std::optional<std::string> check_schedules(const ScheduleSpec& spec, std::span<const StageSchedule> stages,
                                           SchedulePurpose purpose);

}  // namespace ogrom
