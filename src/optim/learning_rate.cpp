#include "src/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ogrom {
namespace {

// Share of [first, last] that `step` has passed, clipped to [0, 1]; an empty interval is passed at once.
double passed(i64 step, i64 first, i64 last) {
    if (last <= first) {
        return step >= last ? 1.0 : 0.0;
    }
    return std::clamp(static_cast<double>(step - first) / static_cast<double>(last - first), 0.0, 1.0);
}

}  // namespace

double learning_rate(const OptimizerConfig& optimizer, i64 total_steps, i64 step) {
    const double high = optimizer.lr;
    const double low = optimizer.min_lr;
    const i64 warmup = optimizer.warmup_steps;
    if (step < warmup) {
        return high * static_cast<double>(step + 1) / static_cast<double>(warmup);
    }
    switch (optimizer.schedule) {
        case ScheduleKind::cosine: {
            const double u = passed(step, warmup, optimizer.decay_steps);
            return low + (high - low) * (1 + std::cos(std::numbers::pi * u)) / 2;
        }
        case ScheduleKind::linear:
            return high + (low - high) * passed(step, warmup, optimizer.decay_steps);
        case ScheduleKind::constant:
            return high;
        case ScheduleKind::wsd:
            return high +
                   (low - high) * passed(step, std::max(warmup, total_steps - optimizer.decay_steps), total_steps);
    }
    return high;
}

}  // namespace ogrom
