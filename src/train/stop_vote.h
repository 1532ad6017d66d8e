// A stop that every rank hears at the same micro-batch, though a signal reaches
// one rank at any moment: each call starts a small non-blocking maximum over
// all ranks and gives the answer of the one before, which has had a
// micro-batch's time to arrive. So it waits for nobody unless a rank is a whole
// micro-batch behind.
#pragma once
#include <functional>

#include "src/comm/communicator.h"

namespace ogrom {

class StopVote {
public:
    // `wish`: whether this rank wants to stop now. `world` must outlive this.
    StopVote(Communicator& world, std::function<bool()> wish) : world_(world), wish_(std::move(wish)) {}
    StopVote(const StopVote&) = delete;
    StopVote& operator=(const StopVote&) = delete;

    // Collective. True on all ranks alike once any of them had wished to stop at
    // an earlier call; from then on always.
    [[nodiscard]] bool heard();

private:
    Communicator& world_;
    std::function<bool()> wish_;
    i64 vote_ = 0;  // of the round under way; the maximum of all once it is complete
    Pending under_way_;
};

}  // namespace ogrom
