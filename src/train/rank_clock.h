// What this rank does within its steps, told apart from what it waits for: rank 0 writes it into the run folder at the
// end, so that a report names the slow rank.
#pragma once
#include <vector>

#include "src/comm/session.h"
#include "src/device/select.h"
#include "src/io/rank_times.h"
#include "src/train/throughput.h"

namespace ogrom {

class RankClock {
public:
    // Hears of the waits of this rank's thread until it ends.
    RankClock(Session& session, const Device& device);
    ~RankClock();
    RankClock(const RankClock&) = delete;
    RankClock& operator=(const RankClock&) = delete;

    void begin_step() { waited_in_step_s_ = 0; }
    void end_step(i64 step, const StepTimes& times);  // the first one warms up and is not counted
    [[nodiscard]] RankTimes mine() const;
    // Collective: one for each rank on rank 0, elsewhere empty; empty everywhere where no step was counted.
    [[nodiscard]] std::vector<RankTimes> gather();

private:
    Session& session_;
    const bool gpu_;
    double waited_in_step_s_ = 0;
    i64 seen_ = 0, counted_ = 0, first_step_ = 0, last_step_ = 0, longest_step_ = 0;
    double step_s_ = 0, waited_s_ = 0, data_wait_s_ = 0, longest_work_s_ = 0;  // sums, and the longest
};

}  // namespace ogrom
