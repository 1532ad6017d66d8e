// An engine takes the memory that the plan declares, of any rank of any layout.
#include "src/train/engine.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "src/device/blas.h"
#include "src/train/layout_trial.h"

#include "tests/unit/train/silent_mesh.h"

namespace ogrom::test {
namespace {

using enum PipelineSchedule;

// The layouts are planned for one thread a rank.
class OneThread : public testing::Environment {
    void SetUp() override { set_threads(1); }
};
const testing::Environment* const one_thread = testing::AddGlobalTestEnvironment(new OneThread);

SelftestLayout layout_of(i64 model, std::array<i64, 3> mesh, i64 zero, PipelineSchedule schedule = one_f_one_b) {
    SelftestLayout layout;
    layout.model = model;
    layout.pipeline = mesh[0];
    layout.data = mesh[1];
    layout.tensor = mesh[2];
    layout.zero = zero;
    layout.schedule = schedule;
    return layout;
}

std::vector<SelftestLayout> layouts() {
    constexpr i64 odd = 0, even = 1;
    std::vector<SelftestLayout> all;
    for (i64 zero = 0; zero <= 3; ++zero) {
        for (const std::array<i64, 3>& mesh : {std::array<i64, 3>{1, 1, 1}, {1, 4, 1}, {1, 2, 2}, {2, 2, 1}}) {
            for (const bool deterministic : {false, true}) {
                all.push_back(layout_of(odd, mesh, zero));
                all.back().deterministic = deterministic;
                all.back().tied = deterministic;
            }
        }
        all.push_back(layout_of(odd, {1, 4, 1}, zero));
        all.back().replicas = zero > 0;
        all.back().small_buckets = true;
        all.back().regather_once = zero == 3;
        all.push_back(layout_of(even, {2, 2, 2}, zero, interleaved));
        all.back().sequence_parallel = true;
        all.back().recompute = Recompute::full;
        all.back().recompute_interval = 2;
        all.push_back(layout_of(odd, {2, 1, 2}, zero, zero_bubble));
        all.back().dropout = true;
        all.back().recompute = Recompute::selective;
        all.push_back(layout_of(odd, {3, 1, 1}, zero, gpipe));
        all.back().micro_batch = 2;
        all.push_back(layout_of(odd, {3, 1, 1}, zero, zero_bubble));
        all.back().recompute = Recompute::full;
    }
    return all;
}

bool taken(Arena& arena, const LedgerLine& line) {
    try {
        arena.take<std::byte>(line.name);
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("was taken twice"), std::string::npos) << error.what();
        return true;
    }
    return false;
}

void check_rank(const SelftestLayout& layout, const RunConfig& run, int rank) {
    SilentMesh silent(run.parallel, rank);
    const Decisions d = decide(run, silent.mesh.shape, silent.mesh.place, 1);
    const Ledger ledger = make_ledger(run, d);
    Engine<double> engine(run, d, ledger, silent.mesh);
    const StepPlace place = engine.groups.place();
    EXPECT_EQ(place.part, d.place.part);
    EXPECT_EQ(place.parts, d.place.parts);
    EXPECT_EQ(place.replica, d.place.replica);
    EXPECT_EQ(place.replicas, d.place.replicas);
    i64 bytes = 0;
    for (const LedgerLine& line : ledger.lines()) {
        EXPECT_GT(line.bytes, 0) << line.name << " of " << layout.name();
        if (line.tier == Tier::device || line.tier == Tier::host) {
            EXPECT_TRUE(taken(engine.arena, line)) << line.name << " of " << layout.name() << ", rank " << rank;
            bytes += round_up(line.bytes, 64);
        }
    }
    EXPECT_EQ(engine.arena.bytes(), bytes);
    EXPECT_EQ(static_cast<i64>(engine.passes.size()), layout.pipeline > 1 ? 1 : run.train.accumulation);
}

TEST(Engine, TakesEveryLineOfThePlanAndNothingElse) {
    for (const SelftestLayout& layout : layouts()) {
        SCOPED_TRACE(layout.name());
        const i64 ranks = layout.pipeline * layout.data * layout.tensor;
        const RunConfig run = parse_layout(layout, ranks);
        for (int rank = 0; rank < ranks; ++rank) {
            check_rank(layout, run, rank);
        }
    }
}

// What the ranks write into a checkpoint is each logical element of the model once.
TEST(Engine, RanksWriteEachElementOnce) {
    for (const SelftestLayout& layout : layouts()) {
        SCOPED_TRACE(layout.name());
        const i64 ranks = layout.pipeline * layout.data * layout.tensor;
        const RunConfig run = parse_layout(layout, ranks);
        std::map<std::string, i64> written;
        for (int rank = 0; rank < ranks; ++rank) {
            SilentMesh silent(run.parallel, rank);
            const Decisions d = decide(run, silent.mesh.shape, silent.mesh.place, 1);
            const Engine<double> engine(run, d, make_ledger(run, d), silent.mesh);
            for (const StateGroup<const double>& group : engine.groups_to_write()) {
                for (const HeldRange<const double>& held : group.ranges) {
                    for (const LocalTensor& tensor : engine.layout.tensors()) {
                        const bool copy = engine.layout.replicated(tensor) && engine.layout.part().rank != 0;
                        if (copy || !tensor.parameter->tie.empty()) {
                            continue;
                        }
                        const FlatRange logical{tensor.offset, tensor.offset + tensor.logical};
                        written[group.name] += count_of(intersect({held.flat}, logical));
                    }
                }
            }
        }
        const i64 parameters = make_parameters(run.model, Dtype::fp64).count();
        EXPECT_EQ(written, (std::map<std::string, i64>{
                               {"weights", parameters}, {"moment1", parameters}, {"moment2", parameters}}));
    }
}

}  // namespace
}  // namespace ogrom::test
