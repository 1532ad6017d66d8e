// Comes in: the waits and the times of each step of this rank. Goes out: means of all ranks on rank 0.
// Next: io/rank_times.cpp
#include "src/train/rank_clock.h"

#include <limits>

namespace ogrom {

RankClock::RankClock(Session& session, const Device& device) : session_(session), gpu_(device.is_gpu()) {
    session_.observe_waits([this](const CommWait& wait) { waited_in_step_s_ += wait.end_s - wait.begin_s; });
}

RankClock::~RankClock() {
    session_.observe_waits({});
}

void RankClock::end_step(i64 step, const StepTimes& times) {
    if (++seen_ == 1) {
        return;
    }
    first_step_ = counted_ == 0 ? step : first_step_;
    last_step_ = step;
    ++counted_;
    step_s_ += times.step_s;
    waited_s_ += waited_in_step_s_;
    data_wait_s_ += times.data_wait_s;
    if (const double work_s = times.step_s - waited_in_step_s_; work_s > longest_work_s_) {
        longest_work_s_ = work_s;
        longest_step_ = step;
    }
}

RankTimes RankClock::mine() const {
    constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
    const auto steps = static_cast<double>(counted_);
    RankTimes times{session_.rank(), session_.host(), first_step_, last_step_};
    times.step_s = step_s_ / steps;
    times.data_wait_s = data_wait_s_ / steps;
    // On a GPU the host waits for the device, and that for other ranks within its queue.
    times.waited_s = gpu_ ? unknown : waited_s_ / steps;
    times.longest_work_s = gpu_ ? unknown : longest_work_s_;
    times.longest_step = gpu_ ? 0 : longest_step_;
    return times;
}

std::vector<RankTimes> RankClock::gather() {
    std::vector<RankTimes> ranks;
    if (counted_ == 0) {  // the same on every rank
        return ranks;
    }
    for (const std::string& line : gather_text(session_.world(), rank_times_line(mine()), "times by rank")) {
        if (session_.rank() == 0) {
            ranks.push_back(parse_rank_line(line.substr(0, line.find('\n')), "times by rank"));
        }
    }
    return ranks;
}

}  // namespace ogrom
