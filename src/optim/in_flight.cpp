#include "src/optim/in_flight.h"

#include <chrono>
#include <utility>

namespace ogrom {

i64 InFlight::claim() {
    const i64 oldest_of_slot = issued_ + 1 - slots_;
    wait_for(oldest_of_slot);
    return issued_ % slots_;
}

i64 InFlight::add(Pending call, std::function<void()> complete) {
    calls_.push_back({std::move(call), std::move(complete)});
    return ++issued_;
}

void InFlight::finish_oldest() {
    const Call call = std::move(calls_.front());
    calls_.pop_front();
    if (call.complete) {
        call.complete();
    }
}

void InFlight::poll() {
    while (!calls_.empty() && calls_.front().pending.test()) {
        finish_oldest();
    }
}

void InFlight::wait_for(i64 number) {
    const auto completed = [&] { return issued_ - static_cast<i64>(calls_.size()); };
    if (completed() >= number) {
        return;
    }
    const auto start = std::chrono::steady_clock::now();
    double own_s = 0;  // spent on completions, which is work
    while (completed() < number) {
        calls_.front().pending.wait();
        const auto before = std::chrono::steady_clock::now();
        finish_oldest();
        own_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    }
    waited_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() - own_s;
}

}  // namespace ogrom
