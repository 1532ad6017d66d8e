// ZeRO together with pipeline and tensor ranks: tied tables stay equal over stages (B01), replicated tensors are joined
// over tensor ranks, and one norm counts each logical element once (B02).
#include <cmath>

#include "src/optim/traffic.h"

#include "tests/mpi/zero_world.h"

namespace ogrom {
namespace {

using test::Axes;

StepOptions staged(int zero, i64 bucket = 100) {
    StepOptions options{zero, GradientWay::staged, ReduceOrder::fixed, bucket};
    options.sequence_parallel = true;
    return options;
}

// Axes with a pipeline that fit the ranks.
std::vector<Axes> pipelines(int size) {
    std::vector<Axes> all{{size, 1, 1, 1}};
    if (size == 4) {
        all.push_back({2, 2, 1, 2});
        all.push_back({2, 1, 2, 1});
    }
    return all;
}

// The copies of a tied table on first and last stage, as far as this rank keeps them; [own, other's].
std::vector<double> kept_table(const FakeRank& rank) {
    std::vector<double> table;
    for (const FlatRange& range : intersect(rank.state.weights.ranges(), rank.layout.tied_table())) {
        const double* const at = rank.state.weights.locate(range);
        table.insert(table.end(), at, at + range.count());
    }
    return table;
}

TEST(ZeroMesh, B01TiedTablesStayEqualOverStages) {
    const int size = test::session().size();
    for (const Axes& axes : pipelines(size)) {
        const Mesh mesh = test::mesh_of(axes);
        for (int zero = 0; zero <= 3; ++zero) {
            OptimizerConfig optimizer;
            optimizer.weight_decay = 0.1;
            FakeRank rank({test::small_model(axes.pp),
                           test::stage_spans(mesh),
                           {axes.tp, mesh.place.tp},
                           staged(zero),
                           test::groups_of(mesh),
                           optimizer});
            const FlatRange tied = rank.layout.tied_table();
            // Equal tables at the start, all else of its own stage.
            rank.set_weights([&](i64 i) {
                return i >= tied.first && i < tied.last ? test::start_weight(i - tied.first)
                                                        : test::start_weight(i + mesh.place.pp);
            });
            for (i64 step = 0; step < 4; ++step) {
                const std::vector<double> now = test::whole_weights(rank, *mesh.shard);
                rank.run(
                    straight_passes(2),
                    [&](i64 m, i64 i) { return test::rough(mesh.place.dp + 7 * mesh.place.pp, m + step, i); },
                    [&](i64 i) { return now[static_cast<std::size_t>(i)]; });
                rank.join->run();
                rank.update->run(Stream{}, make_scalars(optimizer, 0.01, 0.9, step));
                if (mesh.tie == nullptr) {
                    continue;
                }
                const std::vector<double> mine = kept_table(rank);
                std::vector<double> both(2 * mine.size(), -1);
                mesh.tie->all_gather(both.data(), mine.data(), static_cast<i64>(mine.size()), Dtype::fp64, "test")
                    .wait();
                EXPECT_TRUE(std::equal(mine.begin(), mine.end(), both.begin())) << "zero " << zero;
                EXPECT_TRUE(std::equal(mine.begin(), mine.end(), both.begin() + static_cast<i64>(mine.size())))
                    << "zero " << zero << ", step " << step;
            }
            EXPECT_TRUE(rank.guards_intact());
        }
    }
}

// The exchange between stages and the sum on one stage give the same bits: embedding part + head's part.
TEST(ZeroMesh, TiedGradientIsTheSumOfBothParts) {
    const int size = test::session().size();
    for (const bool tied : {true, false}) {
        const Mesh mesh = test::mesh_of({size, 1, 1, 1});
        FakeRank rank(
            {test::small_model(size, tied), test::stage_spans(mesh), {}, staged(1), test::groups_of(mesh), {}});
        rank.set_weights(test::start_weight);
        const FlatRange table = rank.layout.tied_table();
        const auto part = [&](int stage, i64 i) { return test::rough(stage, 0, i - table.first); };
        rank.run(
            straight_passes(1), [&](i64, i64 i) { return part(mesh.place.pp, i); }, test::start_weight);
        const auto before = test::sent_by(mesh);
        rank.join->run();
        EXPECT_EQ(table.count() > 0, tied && mesh.tie != nullptr);
        for (i64 i = 0; i < rank.layout.size(); ++i) {
            const bool joined = i >= table.first && i < table.last;
            ASSERT_EQ(rank.gradient(i), joined ? part(0, i) + part(size - 1, i) : part(mesh.place.pp, i));
        }
        auto sent = test::sent_by(mesh);
        if (!tied) {
            EXPECT_EQ(sent, before);  // nothing is exchanged
        }
        const auto formula = step_traffic(rank.layout, rank.ownership, rank.job.options, rank.place,
                                          rank.uses(straight_passes(1)), 8, 8);
        EXPECT_EQ(formula.contains(labels::tied_gradient), tied && mesh.tie != nullptr);
        EXPECT_EQ(sent[labels::tied_gradient],
                  formula.contains(labels::tied_gradient) ? formula.find(labels::tied_gradient)->second : 0);
    }
}

TEST(ZeroMesh, ReplicatedTensorsAreSummedOverTensorRanks) {
    const int size = test::session().size();
    std::vector<Axes> both{{1, 1, size, 1}};
    if (size == 4) {
        both.push_back({1, 2, 2, 2});
    }
    for (const Axes& axes : both) {
        for (int zero = 0; zero <= 3; ++zero) {
            for (const bool sequence : {true, false}) {
                const Mesh mesh = test::mesh_of(axes);
                StepOptions options = staged(zero);
                options.sequence_parallel = sequence;
                FakeRank rank({test::small_model(), {}, {axes.tp, mesh.place.tp}, options, test::groups_of(mesh), {}});
                rank.set_weights(test::start_weight);
                const auto value = [&](int tp, i64 i) { return static_cast<double>(1000 * tp + i); };
                rank.run(
                    straight_passes(1), [&](i64, i64 i) { return value(mesh.place.tp, i); }, test::start_weight);
                rank.join->run();
                i64 wrong = 0, joined = 0;
                for (const LocalTensor& tensor : rank.layout.tensors()) {
                    const bool partial = sequence && rank.layout.replicated(tensor);
                    const FlatRange whole{tensor.offset, tensor.offset + tensor.count};
                    const auto kept = moment_ranges(rank.layout, rank.ownership, zero, rank.place.part);
                    for (const FlatRange& range : intersect(kept, whole)) {
                        for (i64 i = range.first; i < range.last; ++i) {
                            double sum = value(mesh.place.tp, i);
                            for (int t = 0; t < axes.tp && partial; ++t) {
                                sum += t == mesh.place.tp ? 0 : value(t, i);
                            }
                            const bool table = i < rank.layout.tied_table().last;
                            sum += table ? value(mesh.place.tp, rank.layout.size() + i) : 0;
                            wrong += rank.gradient(i) == axes.dp * sum ? 0 : 1;
                            joined += partial ? 1 : 0;
                        }
                    }
                }
                EXPECT_EQ(wrong, 0) << "zero " << zero;
                EXPECT_EQ(joined > 0, sequence);
                const auto formula =
                    step_traffic(rank.layout, rank.ownership, options, rank.place, rank.uses(straight_passes(1)), 8, 8);
                EXPECT_EQ(formula.contains(labels::replicated_gradient), sequence);
                EXPECT_EQ(test::sent_by(mesh)[labels::replicated_gradient],
                          sequence ? formula.find(labels::replicated_gradient)->second : 0);
                EXPECT_TRUE(rank.guards_intact());
            }
        }
    }
}

// A gradient by global index; norm gains and biases dominate, so that a miscount of them moves the norm by > 10 %.
double logical_gradient(const LocalTensor& tensor, i64 i) {
    if (i >= tensor.logical) {
        return 0;
    }
    const double scale = tensor.parameter->group == ParameterGroup::norm ? 100 : 1;
    return scale * std::sin(static_cast<double>(37 * tensor.global_index(i) + tensor.parameter->key));
}

// All of it comes from one rank (data rank 0, tensor rank 0 of replicated tensors, first stage of a tied table).
double contribution(const FakeRank& rank, const Mesh& mesh, i64 element) {
    if (mesh.place.dp != 0 || element >= rank.layout.size()) {
        return 0;
    }
    for (const LocalTensor& tensor : rank.layout.tensors()) {
        if (element >= tensor.offset && element < tensor.offset + tensor.count) {
            const bool elsewhere =
                !tensor.parameter->tie.empty() || (rank.layout.replicated(tensor) && mesh.place.tp != 0);
            return elsewhere ? 0 : logical_gradient(tensor, element - tensor.offset);
        }
    }
    return 0;
}

double norm_on(const Axes& axes, const ModelConfig& model, int zero) {
    const Mesh mesh = test::mesh_of(axes);
    const std::vector<StageSpan> spans = axes.pp > 1 ? test::stage_spans(mesh) : std::vector<StageSpan>();
    FakeRank rank({model, spans, {axes.tp, mesh.place.tp}, staged(zero), test::groups_of(mesh), {}});
    rank.set_weights(test::start_weight);
    rank.run(
        straight_passes(1), [&](i64, i64 i) { return contribution(rank, mesh, i); }, test::start_weight);
    rank.join->run();
    return global_norm<double>(Stream{}, rank.state, rank.layout, rank.ownership, rank.place, test::session().world());
}

// The norm of the assembled gradient.
double whole_norm(const ModelConfig& model) {
    const auto alone = make_single_communicator();
    FakeRank rank({model, {}, {}, staged(0), {}, {}});
    for (const LocalTensor& tensor : rank.layout.tensors()) {
        for (i64 i = 0; i < tensor.count; ++i) {
            *rank.state.gradients.locate({tensor.offset + i, tensor.offset + i + 1}) = logical_gradient(tensor, i);
        }
    }
    return global_norm<double>(Stream{}, rank.state, rank.layout, rank.ownership, rank.place, *alone);
}

TEST(ZeroMesh, B02OneNormUnderEveryLayout) {
    const int size = test::session().size();
    for (const bool tied : {true, false}) {
        const ModelConfig model = test::small_model(size, tied);
        const double expected = whole_norm(model);
        std::vector<Axes> same_bits{{1, size, 1, size}, {1, size, 1, 1}, {size, 1, 1, 1}};
        std::vector<Axes> other_blocks{{1, 1, size, 1}};
        if (size == 4) {
            same_bits.push_back({1, 4, 1, 2});
            other_blocks.push_back({1, 2, 2, 2});
        }
        for (int zero = 0; zero <= 3; ++zero) {
            for (const Axes& axes : same_bits) {
                EXPECT_EQ(norm_on(axes, model, zero), expected)
                    << fmt::format("zero {} pp {} groups of {}", zero, axes.pp, axes.zero_group);
            }
            for (const Axes& axes : other_blocks) {  // blocks of 256 elements of other parts: 256 2^-53 relative
                EXPECT_NEAR(norm_on(axes, model, zero), expected, 3e-14 * expected) << "zero " << zero;
            }
        }
    }
}

}  // namespace
}  // namespace ogrom
