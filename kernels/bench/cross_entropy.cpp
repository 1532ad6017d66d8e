#include "kernels/ops/cross_entropy.h"

#include "kernels/bench/support.h"

#include "tests/reference/cross_entropy.h"

namespace ogrom::bench {
namespace {

// 1024 rows of logits (a chunk of the head's rows): 206 MB in and out.
constexpr i64 logit_rows = 1024;

void cross_entropy(benchmark::State& state) {
    const auto gradient = state.range(0) == 0 ? ops::Gradient::none : ops::Gradient::in_place;
    std::vector<float> logits = values(logit_rows * padded_vocabulary, 1, 4);
    std::vector<std::int32_t> targets;
    for (i64 r = 0; r < logit_rows; ++r) {
        targets.push_back(static_cast<std::int32_t>(r * 7919 % vocabulary));
    }
    double loss = 0;
    const ops::CrossEntropy<float> op{logits.data(),     targets.data(),    nullptr, logit_rows, vocabulary,
                                      padded_vocabulary, padded_vocabulary, 1.0,     gradient,   &loss};
    std::vector<float> row(logits.begin(), logits.begin() + padded_vocabulary);
    const auto want = reference::cross_entropy(widened(row), {targets[0]}, {}, vocabulary, padded_vocabulary, 1.0);
    ops::CrossEntropy<float> first = op;
    first.logits = row.data();
    first.rows = 1;
    ops::cross_entropy({}, first);
    const double error = std::abs(loss - want.loss_sum);
    if (!verified(state, "cross_entropy loss", error, 2e-6) ||
        (gradient == ops::Gradient::in_place &&
         !verified(state, "cross_entropy gradient", worst_error(row, want.gradient), 1e-6))) {
        return;
    }
    // In place, the next call's logits are this call's gradient: the same work on other numbers.
    for (auto _ : state) {
        ops::cross_entropy({}, op);
    }
    cost::Cost per_call = cost::cross_entropy(logit_rows, padded_vocabulary, 4);
    if (gradient == ops::Gradient::none) {
        per_call.bytes /= 2;
    }
    report(state, per_call);
}

// The three stages of a rank that holds every column, without the reductions between them.
void cross_entropy_stages(benchmark::State& state) {
    std::vector<float> logits = values(logit_rows * padded_vocabulary, 1, 4);
    std::vector<std::int32_t> targets;
    for (i64 r = 0; r < logit_rows; ++r) {
        targets.push_back(static_cast<std::int32_t>(r * 7919 % vocabulary));
    }
    std::vector<float> max(logit_rows);
    std::vector<double> sums(2 * logit_rows);
    double loss = 0;
    ops::CrossEntropyPart<float> op{logits.data(),
                                    targets.data(),
                                    nullptr,
                                    1,
                                    padded_vocabulary,
                                    vocabulary,
                                    padded_vocabulary,
                                    0,
                                    vocabulary,
                                    1.0,
                                    ops::Gradient::in_place,
                                    max.data(),
                                    sums.data(),
                                    &loss};
    const auto run = [&] {
        ops::cross_entropy_max({}, op);
        ops::cross_entropy_sum({}, op);
        ops::cross_entropy_finish({}, op);
    };
    const std::vector<float> row(logits.begin(), logits.begin() + padded_vocabulary);
    const auto want = reference::cross_entropy(widened(row), {targets[0]}, {}, vocabulary, padded_vocabulary, 1.0);
    run();
    const std::vector<float> got(logits.begin(), logits.begin() + padded_vocabulary);
    if (!verified(state, "cross_entropy_finish loss", std::abs(loss - want.loss_sum), 2e-6) ||
        !verified(state, "cross_entropy_finish gradient", worst_error(got, want.gradient), 1e-6)) {
        return;
    }
    op.rows = logit_rows;
    for (auto _ : state) {
        run();
    }
    const cost::Cost stages[] = {cost::cross_entropy_max(logit_rows, vocabulary, 4),
                                 cost::cross_entropy_sum(logit_rows, vocabulary, 4),
                                 cost::cross_entropy_finish(logit_rows, vocabulary, 4)};
    cost::Cost per_call;
    for (const cost::Cost& stage : stages) {
        per_call.flops += stage.flops;
        per_call.bytes += stage.bytes;
    }
    report(state, per_call);
}

BENCHMARK(cross_entropy_stages)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(cross_entropy)->Arg(0)->Arg(1)->ArgName("gradient")->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace ogrom::bench
