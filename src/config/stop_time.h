// train.stop_before: when a run saves and ends by the clock of the wall. Comes in: the key's text. Goes out: the time,
// or what is wrong with it. Next: train/stop_time.cpp, which asks clock and job.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "kernels/common/extents.h"

namespace ogrom {

struct StopTime {
    bool of_job = false;     // counted back from the end of the SLURM job
    i64 seconds_before = 0;  // of_job
    i64 unix_s = 0;          // else
};

// "2026-01-31T23:59:00Z", "job-end", "job-end-300s" (s, min or h). Nothing where the text is none of these, or a day
// that no calendar has.
std::optional<StopTime> parse_stop_time(std::string_view text);

// What would be right, for messages.
std::string stop_time_forms();

}  // namespace ogrom
