#include "src/config/near.h"

#include <algorithm>
#include <fmt/format.h>

namespace ogrom {

std::string nearest_divisors(i64 whole, i64 value) {
    i64 low = 1, high = whole;
    for (i64 d = 1; d <= whole / d; ++d) {
        if (whole % d == 0) {
            for (const i64 divisor : {d, whole / d}) {
                low = divisor <= value ? std::max(low, divisor) : low;
                high = divisor >= value ? std::min(high, divisor) : high;
            }
        }
    }
    return low == high ? fmt::format("{}", low) : fmt::format("{} or {}", low, high);
}

std::string nearest_multiples(i64 value, i64 step) {
    const i64 low = value / step * step;
    return low > 0 ? fmt::format("{} or {}", low, low + step) : fmt::format("{}", low + step);
}

}  // namespace ogrom
