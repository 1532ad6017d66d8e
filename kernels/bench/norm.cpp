#include "kernels/ops/norm.h"

#include "kernels/bench/support.h"

#include "tests/reference/norm.h"

namespace ogrom::bench {
namespace {

constexpr i64 n = i64{1} << 25;

void sum_of_squares(benchmark::State& state) {
    const std::vector<float> x = values(n, 1);
    double got = ops::sum_of_squares(Stream{}, x.data(), n);
    const double want = reference::sum_of_squares(x.data(), n);
    if (!verified(state, "sum_of_squares", std::abs(got - want) / want, 1e-12)) {
        return;
    }
    for (auto _ : state) {
        benchmark::DoNotOptimize(got += ops::sum_of_squares(Stream{}, x.data(), n));
    }
    report(state, cost::sum_of_squares(n, 4));
}

void block_squares(benchmark::State& state) {
    const std::vector<float> x = values(n, 1);
    const auto run = [&] {
        ExactSum sum;
        ops::block_squares(Stream{}, x.data(), n, sum);
        return sum.value();
    };
    const double want = reference::sum_of_squares(x.data(), n);
    if (!verified(state, "block_squares", std::abs(run() - want) / want, 1e-15)) {
        return;
    }
    for (auto _ : state) {
        benchmark::DoNotOptimize(run());
    }
    report(state, cost::block_squares(n, 4));
}

void all_finite(benchmark::State& state) {
    std::vector<float> x = values(n, 1);
    x.back() = std::numeric_limits<float>::infinity();
    const bool found = !ops::all_finite(Stream{}, x.data(), n);
    x.back() = 1;
    if (!verified(state, "all_finite", found && ops::all_finite(Stream{}, x.data(), n) ? 0 : 1, 0)) {
        return;
    }
    for (auto _ : state) {
        benchmark::DoNotOptimize(ops::all_finite(Stream{}, x.data(), n));
    }
    report(state, {0, 4.0 * n});
}

BENCHMARK(sum_of_squares)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(block_squares)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(all_finite)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace ogrom::bench
