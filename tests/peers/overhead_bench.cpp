// What the machinery of a step costs (mesh, ledger, schedule, units, flight record, control message): the engine's step
// of a tiny model beside the same kernels called straight down (plain_step), on the same tokens and weights. One rank,
// one thread. Verified first: losses of the first steps agree.
//   bench_overhead [SAMPLES]      prints rows as JSON
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

#include "src/base/timer.h"

#include "tests/peers/layout_bench.h"
#include "tests/peers/plain_step.h"

namespace ogrom::peers {
namespace {

constexpr int steps_per_sample = 10;
constexpr double bar = 1.05;

PlainStep make_plain(Engine<float>& engine) {
    const RunConfig& run = engine.run;
    PlainStep plain(run.model, run.optimizer, run.train.micro_batch, run.train.sequence,
                    engine.decisions.shape.extents.logits_rows);
    const std::span<const float> weights = engine.state.weights.data();
    require(weights.size() == plain.weights().size(), ExitCode::usage, "the plain step has another model");
    plain.weights().assign(weights.begin(), weights.end());
    return plain;
}

double plain_step(PlainStep& plain, const Batch& batch) {
    return plain.run(batch.tokens.data(), batch.targets.data(), batch.positions.data());
}

// Sums of 512 rows in another order: 512 * 6e-8 of a loss of 6 at the very most, and the update of the steps before.
double require_equal_losses(Contender& ours, PlainStep& plain) {
    double most = 0;
    for (int step = 0; step < 3; ++step) {
        ours.step();
        const double loss = plain_step(plain, ours.batches()[0]);
        most = std::max(most, std::abs(ours.loss() - loss));
        require(most < 1e-5, ExitCode::numerics,
                fmt::format("step {}: loss {} of the engine, {} of the plain step", step, ours.loss(), loss));
    }
    return most;
}

Json overhead(Session& session, const std::string& command, int samples) {
    require(session.size() == 1, ExitCode::usage, "bench_overhead runs on 1 rank");
    Contender ours(session, bench_run({}, "", "", 1), 1);
    PlainStep plain = make_plain(ours.engine());
    const double difference = require_equal_losses(ours, plain);
    const auto of_engine = [&] {
        const Timer timer;
        for (int i = 0; i < steps_per_sample; ++i) {
            ours.step();
        }
        return timer.seconds() / steps_per_sample;
    };
    const auto of_plain = [&] {
        const Timer timer;
        for (int i = 0; i < steps_per_sample; ++i) {
            plain_step(plain, ours.batches()[0]);
        }
        return timer.seconds() / steps_per_sample;
    };
    const auto times = in_turn({of_engine, of_plain}, samples);
    const Json extra = {{"step_s", times[0]},
                        {"plain_step_s", times[1]},
                        {"steps_per_sample", steps_per_sample},
                        {"loss_difference", difference},
                        {"model", "C=128 T=128 B=4, 4 layers, 4 heads, byte vocabulary, fp32"}};
    return Json::array({row_of({"step / plain step, C=128 T=128", "ratio", Better::lower, ratios(times[0], times[1]),
                                bar, "at most 1.05", extra},
                               command)});
}

}  // namespace
}  // namespace ogrom::peers

int main(int argc, char** argv) {
    using namespace ogrom::peers;
    const int samples = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
    return run_bench(argc, argv, 1, [samples](ogrom::Session& session, const std::string& command) {
        return overhead(session, command, samples);
    });
}
