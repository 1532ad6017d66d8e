#include "kernels/ops/optimizer.h"

#include "kernels/bench/support.h"

#include "tests/reference/optimizer.h"

namespace ogrom::bench {
namespace {

constexpr i64 n = i64{1} << 24;

ops::StepScalars scalars() {
    ops::StepScalars s;
    s.lr = 1e-4;
    s.clip = 0.9;
    s.correction1 = 0.1;
    s.correction2 = 0.05;
    s.momentum = 0.9;
    return s;
}

struct Tensors {
    std::vector<float> w = values(n, 1);
    std::vector<float> m = std::vector<float>(n);
    std::vector<float> v = std::vector<float>(n);
    std::vector<float> g = values(n, 2);
};

void adamw(benchmark::State& state) {
    Tensors t;
    std::vector<double> want;
    for (i64 i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(i);
        want.push_back(
            reference::adamw({static_cast<double>(t.w[at]), 0, 0}, static_cast<double>(t.g[at]), scalars(), 1, 0.1).w);
    }
    const ops::AdamW<float> op{t.w.data(), t.m.data(), t.v.data(), t.g.data(), n, scalars(), 1, 0.1};
    ops::adamw({}, op);
    if (!verified(state, "adamw", worst_error(t.w, want), 3e-7)) {
        return;
    }
    for (auto _ : state) {
        ops::adamw({}, op);
    }
    report(state, cost::adamw(n, 4));
}

void sgd(benchmark::State& state) {
    Tensors t;
    std::vector<double> want;
    for (i64 i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(i);
        want.push_back(
            reference::sgd({static_cast<double>(t.w[at]), 0, 0}, static_cast<double>(t.g[at]), scalars(), 1, 0.1).w);
    }
    const ops::Sgd<float> op{t.w.data(), t.m.data(), t.g.data(), n, scalars(), 1, 0.1};
    ops::sgd({}, op);
    if (!verified(state, "sgd", worst_error(t.w, want), 3e-7)) {
        return;
    }
    for (auto _ : state) {
        ops::sgd({}, op);
    }
    report(state, cost::sgd(n, 4));
}

BENCHMARK(adamw)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(sgd)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace ogrom::bench
