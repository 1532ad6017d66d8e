#include "kernels/ops/gelu.h"

#include "kernels/bench/support.h"

#include "tests/reference/gelu.h"

namespace ogrom::bench {
namespace {

void bias_gelu_forward(benchmark::State& state) {
    std::vector<float> x = values(rows * ffn, 1, 4);
    const std::vector<float> bias(ffn, 0.0F);  // x is its own input: a zero bias keeps it in range over many calls
    std::vector<float> y(x.size());
    const ops::BiasGeluForward<float> op{y.data(), x.data(), bias.data(), rows, ffn};
    ops::bias_gelu_forward({}, op);
    std::vector<double> want;
    for (const float u : x) {
        want.push_back(reference::gelu(static_cast<double>(u)));
    }
    if (!verified(state, "bias_gelu_forward", worst_error(y, want), 1e-6)) {
        return;
    }
    for (auto _ : state) {
        ops::bias_gelu_forward({}, op);
    }
    report(state, cost::bias_gelu_forward(rows, ffn, 4));
}

void gelu_forward(benchmark::State& state) {
    const std::vector<float> u = values(rows * ffn, 1, 4);
    std::vector<float> y(u.size());
    const ops::GeluForward<float> op{y.data(), u.data(), rows * ffn};
    ops::gelu_forward({}, op);
    std::vector<double> want;
    for (const float value : u) {
        want.push_back(reference::gelu(static_cast<double>(value)));
    }
    if (!verified(state, "gelu_forward", worst_error(y, want), 1e-6)) {
        return;
    }
    for (auto _ : state) {
        ops::gelu_forward({}, op);
    }
    report(state, cost::gelu_forward(rows * ffn, 4));
}

void gelu_backward(benchmark::State& state) {
    const std::vector<float> u = values(rows * ffn, 1, 4);
    const std::vector<float> d_y = values(rows * ffn, 2);
    std::vector<float> d_x(u.size());
    const ops::GeluBackward<float> op{d_x.data(), d_y.data(), u.data(), rows * ffn};
    ops::gelu_backward({}, op);
    std::vector<double> want;
    for (std::size_t i = 0; i < u.size(); ++i) {
        want.push_back(static_cast<double>(d_y[i]) * reference::gelu_derivative(static_cast<double>(u[i])));
    }
    if (!verified(state, "gelu_backward", worst_error(d_x, want), 2e-6)) {
        return;
    }
    for (auto _ : state) {
        ops::gelu_backward({}, op);
    }
    report(state, cost::gelu_backward(rows * ffn, 4));
}

BENCHMARK(bias_gelu_forward)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(gelu_forward)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(gelu_backward)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace ogrom::bench
