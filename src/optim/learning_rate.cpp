#include "src/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ogrom {
namespace {

// Share of [first, last] that `step` has passed, clipped to [0, 1]; an empty interval is passed behind its place.
double passed(i64 step, i64 first, i64 last) {
    if (last <= first) {
        return step > first ? 1.0 : 0.0;
    }
    return std::clamp(static_cast<double>(step - first) / static_cast<double>(last - first), 0.0, 1.0);
}

}  // namespace

double learning_rate(const OptimizerConfig& optimizer, i64 total_steps, i64 step) {
    const double high = optimizer.lr;
    const double low = optimizer.min_lr;
    const i64 update = step + 1;
    if (update < optimizer.warmup_steps) {
        return high * static_cast<double>(update) / static_cast<double>(optimizer.warmup_steps);
    }
    const i64 peak = std::max<i64>(optimizer.warmup_steps, 1);  // the update that is made at the full rate
    switch (optimizer.schedule) {
        case ScheduleKind::cosine: {
            const double u = passed(update, peak, optimizer.decay_steps);
            return low + (high - low) * (1 + std::cos(std::numbers::pi * u)) / 2;
        }
        case ScheduleKind::linear:
            return high + (low - high) * passed(update, peak, optimizer.decay_steps);
        case ScheduleKind::constant:
            return high;
        case ScheduleKind::wsd:
            return high +
                   (low - high) * passed(update, std::max(peak, total_steps - optimizer.decay_steps), total_steps);
    }
    return high;
}

}  // namespace ogrom
