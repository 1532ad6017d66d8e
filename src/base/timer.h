// Elapsed time of a steady clock, and the time of day in UTC for logs and records.
#pragma once
#include <chrono>
#include <string>

namespace ogrom {

class Timer {
public:
    [[nodiscard]] double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }
    void restart() { start_ = std::chrono::steady_clock::now(); }

private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// "2025-01-31T23:59:59.123Z"
std::string utc_time();

}  // namespace ogrom
