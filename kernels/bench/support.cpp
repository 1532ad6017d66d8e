#include "kernels/bench/support.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/common/parallel.h"
#include "kernels/common/rng.h"

namespace ogrom::bench {
namespace {

template <class Call>
double best_seconds(const Call& call) {
    double best = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < 7; ++repeat) {
        const auto start = std::chrono::steady_clock::now();
        call();
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
        best = std::min(best, spent.count());
    }
    return best;
}

}  // namespace

double copy_bandwidth() {
    static const double rate = [] {
        constexpr i64 n = i64{1} << 26;
        std::vector<float> from(n, 1.0F);
        std::vector<float> to(n);
        const double seconds = best_seconds([&] {
            parallel_ranges(n, parallel_grain, [&](i64 first, i64 last) {
                std::memcpy(to.data() + first, from.data() + first, static_cast<std::size_t>(last - first) * 4);
            });
        });
        return 2.0 * 4 * n / seconds;
    }();
    return rate;
}

std::vector<float> values(i64 n, u32 stream, double scale) {
    std::vector<float> out(static_cast<std::size_t>(n));
    parallel_ranges(n, parallel_grain, [&](i64 first, i64 last) {
        for (i64 i = first; i < last; ++i) {
            const double u = uniform(random_word(4711, stream, 0, static_cast<u64>(i)));
            out[static_cast<std::size_t>(i)] = static_cast<float>((2 * u - 1) * scale);
        }
    });
    return out;
}

std::vector<double> widened(const std::vector<float>& x) {
    return {x.begin(), x.end()};
}

double worst_error(const std::vector<float>& got, const std::vector<double>& want, double floor) {
    double worst = got.size() == want.size() ? 0 : std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < got.size() && i < want.size(); ++i) {
        const double error = std::abs(static_cast<double>(got[i]) - want[i]) / std::max(floor, std::abs(want[i]));
        worst = error <= worst ? worst : (std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
    }
    return worst;
}

bool verified(benchmark::State& state, const std::string& what, double error, double tolerance) {
    if (error <= tolerance) {
        return true;
    }
    state.SkipWithError((what + " differs from the reference by " + std::to_string(error)).c_str());
    return false;
}

void report(benchmark::State& state, const cost::Cost& per_call) {
    using benchmark::Counter;
    const auto calls = static_cast<double>(state.iterations());
    state.counters["GB/s"] = Counter(per_call.bytes * calls * 1e-9, Counter::kIsRate);
    state.counters["GFLOP/s"] = Counter(per_call.flops * calls * 1e-9, Counter::kIsRate);
    state.counters["of_copy"] = Counter(per_call.bytes / copy_bandwidth() * calls, Counter::kIsRate);
}

}  // namespace ogrom::bench
