#include "kernels/ops/layernorm.h"

#include "kernels/bench/support.h"

#include "tests/reference/layernorm.h"

namespace ogrom::bench {
namespace {

constexpr double epsilon = 1e-5;

struct Inputs {
    std::vector<float> x = values(rows * hidden, 1, 3);
    std::vector<float> gamma = values(hidden, 2, 2);
    std::vector<float> beta = values(hidden, 3);
    std::vector<float> y = std::vector<float>(rows * hidden);
    std::vector<float> mean = std::vector<float>(rows);
    std::vector<float> rstd = std::vector<float>(rows);
    [[nodiscard]] ops::LayerNormForward<float> forward() {
        return {y.data(), mean.data(), rstd.data(), x.data(), gamma.data(), beta.data(), rows, hidden, epsilon};
    }
};

void layernorm_forward(benchmark::State& state) {
    Inputs in;
    ops::layernorm_forward({}, in.forward());
    const auto want =
        reference::layernorm_forward(widened(in.x), widened(in.gamma), widened(in.beta), rows, hidden, epsilon);
    if (!verified(state, "layernorm_forward", worst_error(in.y, want.y), 1e-6)) {
        return;
    }
    for (auto _ : state) {
        ops::layernorm_forward({}, in.forward());
    }
    report(state, cost::layernorm_forward(rows, hidden, 4));
}

void layernorm_backward(benchmark::State& state) {
    Inputs in;
    ops::layernorm_forward({}, in.forward());
    const std::vector<float> d_y = values(rows * hidden, 4);
    std::vector<float> d_x(rows * hidden);
    std::vector<float> d_gamma(hidden);
    std::vector<float> d_beta(hidden);
    const bool adds = state.range(0) == 1;
    const ops::LayerNormBackward<float> op{d_x.data(),
                                           d_gamma.data(),
                                           d_beta.data(),
                                           d_y.data(),
                                           in.x.data(),
                                           in.gamma.data(),
                                           in.mean.data(),
                                           in.rstd.data(),
                                           rows,
                                           hidden,
                                           adds ? ops::Accumulate::add : ops::Accumulate::overwrite};
    ops::layernorm_backward({}, op);
    const auto want =
        reference::layernorm_backward(widened(d_y), widened(in.x), widened(in.gamma), rows, hidden, epsilon);
    if (!verified(state, "layernorm_backward d_x", worst_error(d_x, want.d_x), 1e-6) ||
        !verified(state, "layernorm_backward d_gamma", worst_error(d_gamma, want.d_gamma, 64), 1e-6)) {
        return;
    }
    for (auto _ : state) {
        ops::layernorm_backward({}, op);
    }
    report(state,
           cost::layernorm_backward(rows, hidden, 4, adds ? cost::Output::accumulated : cost::Output::overwritten));
}

BENCHMARK(layernorm_forward)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(layernorm_backward)->Arg(0)->Arg(1)->ArgName("add")->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace ogrom::bench
