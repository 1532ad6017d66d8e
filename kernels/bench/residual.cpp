#include "kernels/ops/residual.h"

#include "kernels/bench/support.h"

#include "tests/reference/residual.h"

namespace ogrom::bench {
namespace {

const std::vector<i64> samples{3, 0, 7, 1};

ops::DropoutSpec drop(const benchmark::State& state) {
    return {state.range(0) == 0 ? 0.0 : 0.1, 1, 2, 3};
}

void residual_forward(benchmark::State& state) {
    const std::vector<float> x = values(rows * hidden, 1);
    const std::vector<float> branch = values(rows * hidden, 2);
    const std::vector<float> bias = values(hidden, 3);
    std::vector<float> y(x.size());
    const ops::ResidualForward<float> op{y.data(), x.data(), branch.data(),  bias.data(), micro_batch,
                                         sequence, hidden,   samples.data(), drop(state)};
    ops::residual_forward({}, op);
    const auto want = reference::residual_forward({micro_batch, sequence, hidden, samples.data(), drop(state)},
                                                  widened(x), widened(branch), widened(bias));
    if (!verified(state, "residual_forward", worst_error(y, want), 5e-7)) {
        return;
    }
    for (auto _ : state) {
        ops::residual_forward({}, op);
    }
    report(state, cost::residual_forward(rows, hidden, 4));
}

void dropout_backward(benchmark::State& state) {
    const std::vector<float> d_y = values(rows * hidden, 1);
    std::vector<float> d_branch(d_y.size());
    const ops::DropoutBackward<float> op{d_branch.data(), d_y.data(),     micro_batch, sequence,
                                         hidden,          samples.data(), drop(state)};
    ops::dropout_backward({}, op);
    const auto want =
        reference::dropout_backward({micro_batch, sequence, hidden, samples.data(), drop(state)}, widened(d_y));
    if (!verified(state, "dropout_backward", worst_error(d_branch, want), 5e-7)) {
        return;
    }
    for (auto _ : state) {
        ops::dropout_backward({}, op);
    }
    report(state, cost::dropout_backward(rows, hidden, 4));
}

void add_bias(benchmark::State& state) {
    std::vector<float> y = values(rows * hidden, 1);
    const std::vector<float> bias = values(hidden, 2);
    auto want = widened(y);
    for (std::size_t i = 0; i < want.size(); ++i) {
        want[i] += static_cast<double>(bias[i % hidden]);
    }
    const ops::AddBias<float> op{y.data(), bias.data(), rows, hidden, hidden};
    ops::add_bias({}, op);
    if (!verified(state, "add_bias", worst_error(y, want), 2e-7)) {
        return;
    }
    for (auto _ : state) {
        ops::add_bias({}, op);
    }
    report(state, cost::add_bias(rows, hidden, 4));
}

BENCHMARK(residual_forward)->Arg(0)->Arg(1)->ArgName("dropout")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(dropout_backward)->Arg(1)->ArgName("dropout")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(add_bias)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace ogrom::bench
