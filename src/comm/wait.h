// The only way to wait for another rank after start-up: a loop that tests the request, the node's verdict and gives the
// core away. The deadline is the watchdog's: it sees from `waiting_s` of all ranks whether anyone still moves, so a
// long computation or a slow save elsewhere is no failure, and a mismatch of collectives is one.
#pragma once
#include <functional>

namespace ogrom {

class Control;

// Returns once done() is true. `control` may be null (nothing to watch). `progress` counts what has completed so far;
// each change restarts the deadline. Throws Error(peer) when a failure is known on this node.
void wait_until(const std::function<bool()>& done, Control* control, const std::function<long()>& progress);

// For a rank that has nothing to do until then, minutes perhaps: naps between the tests, so that it takes no core from
// those that work. `done` answers up to 10 ms late. Throws Error(peer) when a failure is known on this node.
void wait_resting(const std::function<bool()>& done, Control& control);

// Gives the core away, longer the longer one has waited. `turns` counts calls since the last progress.
void give_way(long turns, bool oversubscribed);

}  // namespace ogrom
