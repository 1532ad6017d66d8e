// The flight record of this rank: its last collectives, each with sequence, label, axis, bytes, state and time. Kept by
// the thread that issues them; the newest entry is also published in shared memory (comm/control) for the other ranks.
#pragma once
#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "kernels/common/extents.h"

namespace ogrom {

enum class FlightState { issued, done };

struct FlightEntry {
    i64 sequence = 0;  // from 1: of the collective on its communicator, of a message on its pair and direction
    std::string label;
    std::string axis;  // name of the communicator
    i64 bytes = 0;     // payload of this rank
    FlightState state = FlightState::issued;
    double issued_s = 0, done_s = 0;  // seconds on the steady clock
};

// Told of each collective and message that is done, on the thread that issues them; makes none itself.
using CollectiveObserver = std::function<void(const FlightEntry&)>;

// Time that the thread of a rank spent on communication: handing an operation to MPI, or waiting for it. Seconds of the
// steady clock.
struct CommWait {
    std::string_view label;  // empty where the flight record has forgotten it
    std::string_view axis;
    double begin_s = 0, end_s = 0;
};
// Told of each, on that thread, as it ends; makes no collective itself.
using WaitObserver = std::function<void(const CommWait&)>;

// "#345 'gradients.bucket.3' (dp, 1.2 MB)"
std::string describe_collective(i64 sequence, std::string_view label, std::string_view axis, i64 bytes);

class FlightRecord {
public:
    static constexpr i64 capacity = 64;
    // Returns a ticket for done(); the oldest entry is overwritten.
    i64 issue(i64 sequence, std::string_view label, std::string_view axis, i64 bytes, double now_s);
    // The entry; null, and no effect, once it was overwritten.
    const FlightEntry* done(i64 ticket, double now_s);
    [[nodiscard]] i64 issued() const { return next_; }
    [[nodiscard]] const FlightEntry* of_ticket(i64 ticket) const;  // null once it was overwritten
    // Entry `back` calls before the newest (0 = newest); null where there is none.
    [[nodiscard]] const FlightEntry* entry(i64 back) const;
    // Entries not yet complete, newest first, parted by commas; empty when all are.
    [[nodiscard]] std::string outstanding() const;

private:
    std::array<FlightEntry, capacity> ring_{};
    i64 next_ = 0;
};

}  // namespace ogrom
