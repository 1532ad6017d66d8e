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

struct Way {
    i64 zero = 2;
    i64 bucket_elements = 1;
    bool overlap = true;
    Late late = Late::nobody;
};

// 2,500 parameters, so that buckets of one element are possible.
RunConfig small_run(const Way& way, const char* deterministic) {
    const i64 ranks = session().size();
    return tiny_run(
        ranks, {1, 12 / ranks},
        {"model.layers=1", "model.hidden=12", "model.heads=2", "model.vocab=37", "model.vocab_multiple=8",
         "model.sequence=8", "train.sequence=8", fmt::format("parallel.zero={}", way.zero),
         fmt::format("numerics.deterministic={}", deterministic), fmt::format("comm.overlap={}", way.overlap),
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

Outcome train_with(const Way& way, const char* deterministic) {
    const RunConfig run = small_run(way, deterministic);
    Mesh mesh = make_mesh(session().world(), run.parallel);
    if (way.late == Late::transfers) {
        // 5 ms over all pieces of a unit, whatever their number.
        mesh.shard = make_delayed_communicator(std::move(mesh.shard), {0, 5e-3 / (800.0 * 8), {}});
    }
    const Decisions decisions = decide(run, mesh.shape, mesh.place, 1);
    Engine<double> engine(run, decisions, make_ledger(run, decisions), mesh);
    if (way.late == Late::passes && session().rank() == session().size() - 1) {
        engine.units.set_hook(
            [](i64, FlatRange, double*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
    }
    Outcome outcome;
    for (i64 step = 0; step < 3; ++step) {
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

}  // namespace
}  // namespace ogrom::test
