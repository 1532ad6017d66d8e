// ZeRO over real ranks: sums arrive at their owners and nowhere else, in the same bits under every stage, and bytes are
// those of the formula.
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "src/comm/delayed.h"
#include "src/optim/traffic.h"

#include "tests/mpi/zero_world.h"

namespace ogrom {
namespace {

using test::Axes;

// Every stage in the ways that it has; `fixed` leaves the staged ones.
std::vector<StepOptions> stages(i64 bucket, ReduceOrder order) {
    std::vector<StepOptions> all;
    for (int zero = 0; zero <= 3; ++zero) {
        all.push_back({zero, GradientWay::staged, order, bucket});
        if (zero <= 1 && order == ReduceOrder::any) {
            all.push_back({zero, GradientWay::direct, order, bucket});
        }
        if (zero == 3) {
            all.push_back({zero, GradientWay::staged, order, bucket, true, Regather::step});
        }
    }
    return all;
}

std::string describe(const FakeRank& rank) {
    const StepOptions& o = rank.job.options;
    return fmt::format("zero {} {} order {} bucket {} overlap {} groups of {}", o.zero,
                       o.way == GradientWay::direct ? "direct" : "staged",
                       o.order == ReduceOrder::fixed ? "fixed" : "any", o.bucket_elements, o.overlap, rank.place.parts);
}

void expect_sums(const FakeRank& rank, i64 micro_batches) {
    i64 wrong = 0, seen = 0;
    for (const FlatRange& range : rank.summed()) {
        for (i64 i = range.first; i < range.last; ++i, ++seen) {
            wrong +=
                rank.gradient(i) == test::origin_sum(rank.place.parts * rank.place.replicas, micro_batches, i) ? 0 : 1;
        }
    }
    EXPECT_EQ(wrong, 0) << describe(rank);
    const bool all = rank.job.options.zero == 0;
    EXPECT_EQ(seen, all ? rank.layout.gradient_size() : rank.ownership.gradient_shard_size(rank.place.part));
}

// Two steps of two micro-batches with other weights in each; sums, sentinels and bytes.
void check_steps(const Mesh& mesh, const ModelConfig& model, const StepOptions& options) {
    FakeRank rank({model, {}, {}, options, test::groups_of(mesh), {}});
    const std::vector<FakePass> passes = straight_passes(2);
    const auto formula = step_traffic(rank.layout, rank.ownership, options, rank.place, rank.uses(passes), 8, 8);
    for (int step = 0; step < 2; ++step) {
        const auto weight = [&](i64 i) { return test::start_weight(i) + step; };
        rank.set_weights(weight);
        auto before = test::sent_by(mesh);
        rank.run(
            passes, [&](i64 m, i64 i) { return test::origin(mesh.place.dp, m, i); }, weight);
        expect_sums(rank, 2);
        rank.join->run();
        rank.update->run(Stream{}, make_scalars({}, 0.0, 1.0, 0));
        std::map<std::string, i64, std::less<>> sent;
        for (const auto& [label, bytes] : test::sent_by(mesh)) {
            if (bytes != before[label]) {
                sent[label] = bytes - before[label];
            }
        }
        EXPECT_EQ(sent, formula) << describe(rank);
        EXPECT_TRUE(rank.guards_intact()) << describe(rank);
    }
}

TEST(Zero, SumsArriveAtTheirOwnersForAnyBucket) {
    const int size = test::session().size();
    const Mesh mesh = test::mesh_of({1, size, 1, size});
    for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
        for (const i64 bucket : {15, 700, 1'000'000}) {  // a parameter, splits parameters, larger than the model
            for (StepOptions options : stages(bucket, order)) {
                options.overlap = bucket != 700;
                check_steps(mesh, test::small_model(), options);
            }
        }
        for (const StepOptions& options : stages(1, order)) {
            check_steps(mesh, test::tiny_model(), options);
        }
    }
}

TEST(Zero, UntiedTablesHaveNoHeadPart) {
    const int size = test::session().size();
    const Mesh mesh = test::mesh_of({1, size, 1, size});
    for (const StepOptions& options : stages(100, ReduceOrder::any)) {
        check_steps(mesh, test::small_model(2, false), options);
    }
}

// HSDP: shard inside a group of neighbours, sum across.
TEST(Zero, GroupsShardInsideAndReplicateAcross) {
    const int size = test::session().size();
    for (const int group : {1, 2}) {
        if (size % group != 0 || size == group) {
            continue;
        }
        const Mesh mesh = test::mesh_of({1, size, 1, group});
        for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
            for (const StepOptions& options : stages(100, order)) {
                check_steps(mesh, test::small_model(), options);
            }
        }
    }
}

// acc = 0; acc += ((g_0 + g_1) + g_2) + ... of each micro-batch in turn
double ordered_sum(int ranks, i64 micro_batches, i64 element) {
    double sum = 0;
    for (i64 m = 0; m < micro_batches; ++m) {
        double contributions = test::rough(0, m, element);
        for (int r = 1; r < ranks; ++r) {
            contributions += test::rough(r, m, element);
        }
        sum += contributions;
    }
    return sum;
}

TEST(Zero, FixedOrderGivesTheSameBitsUnderEveryStageAndBucket) {
    const int size = test::session().size();
    const Mesh mesh = test::mesh_of({1, size, 1, size});
    OptimizerConfig optimizer;
    optimizer.weight_decay = 0.1;
    std::vector<double> first_weights;
    for (const i64 bucket : {60, 1'000'000}) {
        for (const StepOptions& options : stages(bucket, ReduceOrder::fixed)) {
            FakeRank rank({test::small_model(), {}, {}, options, test::groups_of(mesh), optimizer});
            std::vector<double> weights(static_cast<std::size_t>(rank.layout.size()));
            for (std::size_t i = 0; i < weights.size(); ++i) {
                weights[i] = test::start_weight(static_cast<i64>(i));
            }
            const auto weight = [&](i64 i) { return weights[static_cast<std::size_t>(i)]; };
            rank.set_weights(weight);
            for (i64 step = 0; step < 3; ++step) {
                rank.run(
                    straight_passes(3), [&](i64 m, i64 i) { return test::rough(mesh.place.dp, m, i); }, weight);
                i64 wrong = 0;
                for (const FlatRange& range : rank.summed()) {
                    for (i64 i = range.first; i < range.last; ++i) {
                        wrong += rank.gradient(i) == ordered_sum(size, 3, i) ? 0 : 1;
                    }
                }
                EXPECT_EQ(wrong, 0) << describe(rank);
                rank.join->run();
                rank.update->run(Stream{}, make_scalars(optimizer, 0.01, 0.5, step));
                weights = test::whole_weights(rank, *mesh.shard);
            }
            if (options.zero < 3) {  // every rank has all of the owners' weights
                EXPECT_TRUE(std::equal(weights.begin(), weights.end(), rank.state.weights.data().begin()))
                    << describe(rank);
            }
            if (first_weights.empty()) {
                first_weights = weights;
            }
            EXPECT_EQ(weights, first_weights) << describe(rank);
        }
    }
}

// B08: neither delays of the link, nor a slow rank, nor overlap change a bit.
TEST(Zero, B08DelaysAndOverlapChangeNoBit) {
    const int size = test::session().size();
    for (const i64 bucket : {1, 15, 100, 1'000'000}) {
        // Calls of one element are many: their delay is short.
        const double delay_s = bucket == 1 ? 2e-6 : bucket == 1'000'000 ? 2e-3 : 5e-5;
        for (const bool delayed : {false, true}) {
            Mesh mesh = test::mesh_of({1, size, 1, size});
            if (delayed) {
                mesh.shard = make_delayed_communicator(std::move(mesh.shard), {delay_s, 0});
            }
            for (StepOptions options : stages(bucket, ReduceOrder::fixed)) {
                for (const bool overlap : {true, false}) {
                    options.overlap = overlap;
                    FakeRank rank({test::tiny_model(), {}, {}, options, test::groups_of(mesh), {}});
                    rank.units->set_hook([&](i64, FlatRange, double*) {
                        if (mesh.place.dp == 1) {
                            std::this_thread::sleep_for(std::chrono::microseconds(200));
                        }
                    });
                    for (int step = 0; step < 2; ++step) {
                        const auto weight = [&](i64 i) { return test::start_weight(i) + step; };
                        rank.set_weights(weight);
                        rank.run(
                            straight_passes(2), [&](i64 m, i64 i) { return test::rough(mesh.place.dp, m, i); }, weight);
                        i64 wrong = 0;
                        for (const FlatRange& range : rank.summed()) {
                            for (i64 i = range.first; i < range.last; ++i) {
                                wrong += rank.gradient(i) == ordered_sum(size, 2, i) ? 0 : 1;
                            }
                        }
                        EXPECT_EQ(wrong, 0) << describe(rank) << ", delayed " << delayed;
                        EXPECT_GE(rank.units->exposed_s(), 0);
                    }
                }
            }
        }
    }
}

TEST(Zero, AnAbandonedStepIsCompletedAndDropped) {
    const int size = test::session().size();
    const Mesh mesh = test::mesh_of({1, size, 1, size});
    for (const StepOptions& options : stages(50, ReduceOrder::any)) {
        FakeRank rank({test::small_model(), {}, {}, options, test::groups_of(mesh), {}});
        rank.set_weights(test::start_weight);
        const std::vector<FakePass> passes = straight_passes(2);
        const auto gradient = [&](i64 m, i64 i) { return test::origin(mesh.place.dp, m, i); };
        rank.begin(passes);
        rank.walk(passes[0], gradient, test::start_weight);
        rank.walk(passes[1], gradient, test::start_weight);
        rank.units->abandon();
        rank.run(passes, gradient, test::start_weight);
        expect_sums(rank, 2);
    }
}

TEST(Zero, TheLowestRankWithANonFiniteGradientIsNamed) {
    const int size = test::session().size();
    const Mesh mesh = test::mesh_of({1, size, 1, size});
    for (const StepOptions& options : stages(100, ReduceOrder::any)) {
        FakeRank rank({test::small_model(), {}, {}, options, test::groups_of(mesh), {}});
        rank.set_weights(test::start_weight);
        const i64 bad = rank.layout.tensor("block.1.norm2.bias").offset + 3;
        const auto gradient = [&](i64, i64 i) {
            return i == bad && mesh.place.dp >= 1 ? std::numeric_limits<double>::infinity() : 1.0;
        };
        rank.run(straight_passes(2), gradient, test::start_weight);
        const NonFiniteReport report = rank.units->agree_nonfinite(test::session().world(), rank.table);
        EXPECT_TRUE(report.found) << describe(rank);
        EXPECT_EQ(report.rank, 1);
        EXPECT_EQ(report.parameter, "block.1.norm2.bias");
    }
}

}  // namespace
}  // namespace ogrom
