// B08: gradients reduced while backward goes on are those reduced without overlap, bit for bit, whatever the bucket
// size and whichever side is late: the transfers (a delay under the communicator) or the passes of one rank.
#include <chrono>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <thread>

#include "src/comm/delayed.h"
#include "src/train/layout_compare.h"

#include "tests/equivalence/tiny.h"

namespace ogrom::test {
namespace {

enum class Late { nobody, transfers, passes };
enum class Stalls { each_unit, once_a_step };  // of the late passes, 5 ms each

struct Way {
    i64 zero = 2;
    i64 bucket_elements = 1;
    bool overlap = true;
    Late late = Late::nobody;
};

// How much of it: 2,500 parameters for a few steps, or 350 for many, so that buckets of one element are possible.
struct Amount {
    i64 hidden = 12, heads = 2, vocab = 37;
    i64 steps = 3, micro_batch = 1;
    Stalls stalls = Stalls::each_unit;
    double transfer_delay =
        5e-3 / (800.0 * 8);  // seconds a byte: 5 ms over all pieces of a unit, whatever their number
};
// 5 ms over all transfers of a step
constexpr Amount many_steps{4, 1, 11, 50, 3, Stalls::once_a_step, 5e-3 / (2 * 350.0 * 8)};

RunConfig small_run(const Way& way, const Amount& amount, const char* deterministic) {
    const i64 ranks = session().size();
    return tiny_run(
        ranks, {amount.micro_batch, 12 / ranks / amount.micro_batch},
        {"model.layers=1", fmt::format("model.hidden={}", amount.hidden), fmt::format("model.heads={}", amount.heads),
         fmt::format("model.vocab={}", amount.vocab), "model.vocab_multiple=8", "model.sequence=8", "train.sequence=8",
         fmt::format("parallel.zero={}", way.zero), fmt::format("numerics.deterministic={}", deterministic),
         fmt::format("comm.overlap={}", way.overlap),
         fmt::format("comm.bucket_mib={:.12f}", static_cast<double>(way.bucket_elements) * 8 / 1048576)});
}

struct Outcome {
    std::vector<double> losses, norms;
    u64 state = 0;
    bool operator==(const Outcome&) const = default;
};
void PrintTo(const Outcome& outcome, std::ostream* out) {
    *out << fmt::format("state {:016x} after loss {:.17g}, norm {:.17g}", outcome.state, outcome.losses.back(),
                        outcome.norms.back());
}

Outcome train_with(const Way& way, const char* deterministic, const Amount& amount = {}) {
    const RunConfig run = small_run(way, amount, deterministic);
    Mesh mesh = make_mesh(session().world(), run.parallel);
    if (way.late == Late::transfers) {
        mesh.shard = make_delayed_communicator(std::move(mesh.shard), {0, amount.transfer_delay, {}});
    }
    const Decisions decisions = decide(run, mesh.shape, mesh.place, 1);
    Engine<double> engine(run, decisions, make_ledger(run, decisions), mesh);
    i64 stalled = -1;  // the last step that was held up
    if (way.late == Late::passes && session().rank() == session().size() - 1) {
        engine.units.set_hook([&](i64, FlatRange, double*) {
            if (amount.stalls == Stalls::each_unit || stalled != engine.step) {
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }
            stalled = engine.step;
        });
    }
    Outcome outcome;
    for (i64 step = 0; step < amount.steps; ++step) {
        const std::vector<Batch> batches = make_batches(run, mesh.place.dp, step);
        const i64 targets = agree_control(mesh, batches, Wish::go_on).targets;
        const StepResult result = train_step<double>(engine, batches, targets);
        outcome.losses.push_back(result.loss);
        outcome.norms.push_back(result.norm);
    }
    outcome.state = state_bits(engine);
    return outcome;
}

TEST(Races, OverlapBucketsAndDelaysChangeNoBit) {
    if (session().size() == 1) {
        return;  // nothing is transferred
    }
    for (const char* deterministic : {"false", "true"}) {
        for (const i64 zero : {1, 2, 3}) {
            const Outcome calm = train_with({zero, 1 << 20, false, Late::nobody}, deterministic);
            for (const i64 elements : {1, 37, 12 * 12 + 5, 1 << 20}) {
                for (const Late late : {Late::nobody, Late::transfers, Late::passes}) {
                    // Thousands of calls a step: once without delays.
                    if (elements <= 37 && (late != Late::nobody || zero != 2)) {
                        continue;
                    }
                    for (const bool overlap : {true, false}) {
                        EXPECT_EQ(train_with({zero, elements, overlap, late}, deterministic), calm)
                            << "zero " << zero << ", " << elements << " elements, overlap " << overlap << ", late "
                            << static_cast<int>(late) << ", deterministic " << deterministic;
                    }
                }
            }
        }
    }
}

// The field case as it was met: ZeRO 2 on two data ranks, 50 steps, five repeats of each setting.
TEST(Races, FiftyStepsFiveRepeats) {
    if (session().size() != 2) {
        return;
    }
    const Outcome calm = train_with({2, 1 << 20, false, Late::nobody}, "false", many_steps);
    const i64 parameter = many_steps.hidden * many_steps.hidden;
    for (const i64 elements : {i64{1}, parameter, parameter + 5, i64{1} << 20}) {
        for (const Late late : {Late::nobody, Late::transfers, Late::passes}) {
            for (const bool overlap : {true, false}) {
                for (int repeat = 0; repeat < 5; ++repeat) {
                    ASSERT_EQ(train_with({2, elements, overlap, late}, "false", many_steps), calm)
                        << elements << " elements, overlap " << overlap << ", late " << static_cast<int>(late)
                        << ", repeat " << repeat;
                }
            }
        }
    }
}

}  // namespace
}  // namespace ogrom::test
