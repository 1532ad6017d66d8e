#include "src/comm/wait.h"

#include <algorithm>
#include <sched.h>
#include <time.h>

#include "src/comm/control.h"

namespace ogrom {

void give_way(long turns, bool oversubscribed) {
    constexpr long spins = 2000;    // about 0.2 ms of bare tests while the core is ours
    constexpr long yields = 20000;  // then offers to others, then naps: a wait this long has no latency to lose
    if (turns < spins && !oversubscribed) {
        return;
    }
    if (turns < yields && !(oversubscribed && turns > 200)) {
        sched_yield();
        return;
    }
    const timespec nap{0, 50'000};
    nanosleep(&nap, nullptr);
}

void wait_resting(const std::function<bool()>& done, Control& control) {
    constexpr long longest_ns = 10'000'000;
    long nap_ns = 100'000;
    while (!done()) {
        control.check();
        const timespec nap{0, nap_ns};
        nanosleep(&nap, nullptr);
        nap_ns = std::min(nap_ns * 2, longest_ns);
    }
}

void wait_until(const std::function<bool()>& done, Control* control, const std::function<long()>& progress) {
    if (done()) {
        return;
    }
    const bool oversubscribed = control != nullptr && control->place().oversubscribed;
    long turns = 0;
    long completed = progress();
    if (control != nullptr) {
        control->waiting_since(steady_seconds());
    }
    while (!done()) {
        if (control != nullptr) {
            control->check();
        }
        if (const long now = progress(); now != completed) {
            completed = now;
            turns = 0;
            if (control != nullptr) {
                control->moved();
                control->waiting_since(steady_seconds());
            }
        }
        give_way(turns++, oversubscribed);
    }
    if (control != nullptr) {
        control->moved();
        control->waiting_since(0);
    }
}

}  // namespace ogrom
