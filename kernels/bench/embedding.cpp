#include "kernels/ops/embedding.h"

#include "kernels/bench/support.h"

#include "tests/reference/embedding.h"

namespace ogrom::bench {
namespace {

struct Inputs {
    std::vector<float> tokens_table = values(padded_vocabulary * hidden, 1);
    std::vector<float> position_table = values(sequence * hidden, 2);
    std::vector<std::int32_t> tokens, positions;
    std::vector<i64> sample{3, 0, 7, 1};
    ops::DropoutSpec dropout;

    explicit Inputs(benchmark::State& state) : dropout{state.range(0) == 0 ? 0.0 : 0.1, 1, 0, 2} {
        for (i64 r = 0; r < rows; ++r) {
            tokens.push_back(static_cast<std::int32_t>(r * 7919 % vocabulary));
            positions.push_back(static_cast<std::int32_t>(r % sequence));
        }
    }
    [[nodiscard]] reference::Embedding reference() const {
        return {micro_batch, sequence, hidden, tokens.data(), positions.data(), sample.data(), dropout};
    }
};

void embedding_forward(benchmark::State& state) {
    const Inputs in(state);
    std::vector<float> y(rows * hidden);
    const ops::EmbeddingForward<float> op{y.data(),
                                          in.tokens_table.data(),
                                          in.position_table.data(),
                                          in.tokens.data(),
                                          in.positions.data(),
                                          micro_batch,
                                          sequence,
                                          hidden,
                                          in.sample.data(),
                                          in.dropout};
    ops::embedding_forward({}, op);
    const auto want =
        reference::embedding_forward(in.reference(), widened(in.tokens_table), widened(in.position_table));
    if (!verified(state, "embedding_forward", worst_error(y, want), 5e-7)) {
        return;
    }
    for (auto _ : state) {
        ops::embedding_forward({}, op);
    }
    report(state, cost::embedding_forward(rows, hidden, 4));
}

void position_forward(benchmark::State& state) {
    const Inputs in(state);
    const std::vector<float> before = values(rows * hidden, 4);
    std::vector<float> y = before;
    ops::PositionForward<float> op{y.data(), in.position_table.data(), in.positions.data(), micro_batch, sequence,
                                   hidden,   in.sample.data(),         in.dropout};
    ops::position_forward({}, op);
    const auto want = reference::position_forward(in.reference(), widened(before), widened(in.position_table));
    if (!verified(state, "position_forward", worst_error(y, want), 5e-7)) {
        return;
    }
    for (auto _ : state) {
        ops::position_forward({}, op);
    }
    report(state, cost::position_forward(rows, hidden, 4));
}

void embedding_backward(benchmark::State& state) {
    const Inputs in(state);
    const std::vector<float> d_y = values(rows * hidden, 3);
    std::vector<float> token(padded_vocabulary * hidden);
    std::vector<float> position(sequence * hidden);
    const ops::EmbeddingBackward<float> op{token.data(),        position.data(),  d_y.data(), in.tokens.data(),
                                           in.positions.data(), micro_batch,      sequence,   hidden,
                                           vocabulary,          in.sample.data(), in.dropout};
    ops::embedding_backward({}, op);
    std::vector<double> want(token.size());
    reference::embedding_backward(in.reference(), in.tokens.data(), widened(d_y), want);
    if (!verified(state, "embedding_backward", worst_error(token, want), 5e-7)) {
        return;
    }
    for (auto _ : state) {
        ops::embedding_backward({}, op);
    }
    report(state, cost::embedding_backward(rows, hidden, 4));
}

BENCHMARK(embedding_forward)->Arg(0)->Arg(1)->ArgName("dropout")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(position_forward)->Arg(0)->Arg(1)->ArgName("dropout")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(embedding_backward)->Arg(0)->Arg(1)->ArgName("dropout")->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace ogrom::bench
