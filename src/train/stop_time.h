// The limits of time of a run, --time-limit and train.stop_before, as one. Comes in: the key, the clock, SLURM's
// environment. Goes out: seconds after launch, the same on all ranks whatever their clocks show.
#pragma once
#include <functional>
#include <string>

#include "src/comm/communicator.h"

namespace ogrom {

struct TimeLimit {
    double after_launch_s = 0;  // 0 = none
    std::string name;           // "train.stop_before = ...", "--time-limit 5"
};

struct StopClock {
    double unix_s = 0;                                         // now
    double since_launch_s = 0;                                 // now
    std::function<const char*(const char*)> environment = {};  // getenv, or a fake in tests
};

// Of one rank; pure. Throws Error(usage): a time that has passed, job-end without a job's end.
TimeLimit time_limit(const std::string& stop_before, double limit_minutes, const StopClock& clock);

// As rank 0 sees it. Collective; the same Error on every rank.
TimeLimit agree_time_limit(Communicator& world, const std::string& stop_before, double limit_minutes);

}  // namespace ogrom
