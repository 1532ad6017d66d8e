#include "kernels/ops/flat.h"

#include "kernels/bench/support.h"

namespace ogrom::bench {
namespace {

constexpr i64 n = i64{1} << 24;

void add(benchmark::State& state) {
    const std::vector<float> x = values(n, 1);
    std::vector<float> y = values(n, 2);
    std::vector<double> want = widened(y);
    for (i64 i = 0; i < n; ++i) {
        want[static_cast<std::size_t>(i)] += static_cast<double>(x[static_cast<std::size_t>(i)]);
    }
    ops::add(Stream{}, y.data(), x.data(), n);
    if (!verified(state, "add", worst_error(y, want), 1e-7)) {
        return;
    }
    for (auto _ : state) {
        ops::add(Stream{}, y.data(), x.data(), n);
    }
    report(state, cost::add(n, 4));
}

void copy(benchmark::State& state) {
    const std::vector<float> x = values(n, 1);
    std::vector<float> y(x.size());
    ops::copy(Stream{}, y.data(), x.data(), n);
    if (!verified(state, "copy", y == x ? 0 : 1, 0)) {
        return;
    }
    for (auto _ : state) {
        ops::copy(Stream{}, y.data(), x.data(), n);
    }
    report(state, cost::copy(n, 4));
}

BENCHMARK(add)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(copy)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace ogrom::bench
