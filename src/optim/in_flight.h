// Collectives under way, oldest first. They complete in order of issue here, whatever the network does, and what their
// completion asks for (an addition) happens in that order too.
#pragma once
#include <deque>
#include <functional>

#include "src/comm/communicator.h"

namespace ogrom {

class InFlight {
public:
    explicit InFlight(i64 slots) : slots_(slots) {}

    // Slot of the next call; waits for the oldest while none is free.
    i64 claim();
    // The call that claimed the slot; `complete` runs once it has ended. Returns its number, from 1.
    i64 add(Pending call, std::function<void()> complete = {});
    void poll();                // completes what has ended
    void wait_for(i64 number);  // until call `number` and all before it are complete
    void drain() { wait_for(issued_); }
    [[nodiscard]] bool empty() const { return calls_.empty(); }
    [[nodiscard]] i64 issued() const { return issued_; }
    [[nodiscard]] double waited_s() const { return waited_s_; }
    void reset_clock() { waited_s_ = 0; }

private:
    struct Call {
        Pending pending;
        std::function<void()> complete;
    };
    void finish_oldest();
    i64 slots_;
    i64 issued_ = 0;
    std::deque<Call> calls_;
    double waited_s_ = 0;
};

}  // namespace ogrom
