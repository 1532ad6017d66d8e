#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "kernels/ops/norm.h"

#include "tests/unit/optim/fake_rank.h"
#include "tests/unit/optim/odd_model.h"

namespace ogrom {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double weight(i64 element) {
    return std::sin(static_cast<double>(11 * element));
}
double gradient(i64 micro_batch, i64 element) {
    return std::sin(static_cast<double>(37 * element + micro_batch));
}

StepOptions staged(int zero) {
    return {zero, GradientWay::staged, ReduceOrder::fixed, 100};
}

TEST(GradientJoin, AddsTheHeadsPartToTheTable) {
    for (int zero = 0; zero <= 3; ++zero) {
        for (const bool tied : {true, false}) {
            ModelConfig model = odd_model();
            model.tied = tied;
            FakeRank rank({model, {}, {}, staged(zero), {}, {}});
            rank.set_weights(weight);
            rank.run(straight_passes(1), gradient, weight);
            rank.join->run();
            const i64 table = tied ? rank.layout.tied_table().count() : 0;
            for (i64 i = 0; i < rank.layout.size(); ++i) {
                const double head = i < table ? gradient(0, rank.layout.size() + i) : 0;
                ASSERT_EQ(rank.gradient(i), gradient(0, i) + head) << "zero " << zero << ", element " << i;
            }
        }
    }
}

// What the norm must be: the logical elements of this rank's tensors that are not tied copies, once each.
double reference_norm(const FakeRank& rank, bool replicated_too) {
    long double sum = 0;
    for (const LocalTensor& tensor : rank.layout.tensors()) {
        if (!tensor.parameter->tie.empty() || (rank.layout.replicated(tensor) && !replicated_too)) {
            continue;
        }
        for (i64 i = 0; i < tensor.logical; ++i) {
            const auto g = static_cast<long double>(rank.gradient(tensor.offset + i));
            sum += g * g;
        }
    }
    return static_cast<double>(std::sqrt(sum));
}

// B02: norm gains and biases dominate, so that a miscount of them moves the norm by more than 10 %. Padding is NaN.
void spoil(FakeRank& rank) {
    for (const LocalTensor& tensor : rank.layout.tensors()) {
        double* const g = rank.state.gradients.locate({tensor.offset, tensor.offset + tensor.count});
        for (i64 i = 0; i < tensor.count; ++i) {
            g[i] *= tensor.parameter->group == ParameterGroup::norm ? 100 : 1;
            g[i] = i < tensor.logical ? g[i] : nan;
        }
    }
}

TEST(SharedNorm, CountsEachLogicalElementOnce) {
    const auto world = make_single_communicator();
    const std::vector<StageSpan> stages[] = {
        {{0, 0, 0, 2, true, true}}, {{0, 0, 0, 1, true, false}}, {{1, 0, 1, 2, false, true}}};
    for (const auto& spans : stages) {
        for (const TensorPart part : {TensorPart{1, 0}, TensorPart{5, 0}, TensorPart{5, 4}}) {
            ModelConfig model = odd_model();
            model.heads = model.kv_heads = 5;
            model.head_dim = 3;
            model.ffn_hidden = 35;
            FakeRank rank({model, spans, part, staged(2), {}, {}});
            rank.set_weights(weight);
            rank.run(straight_passes(1), gradient, weight);
            spoil(rank);
            const double norm =
                global_norm<double>(Stream{}, rank.state, rank.layout, rank.ownership, rank.place, *world);
            const double expected = reference_norm(rank, part.rank == 0);
            // Sums of 256 squares in double lose at most 256 2^-53 relative; the rest is exact.
            EXPECT_NEAR(norm, expected, 1e-13 * expected) << "tensor rank " << part.rank;
            StepPlace replica = rank.place;
            replica.replica = 1;
            EXPECT_EQ(global_norm<double>(Stream{}, rank.state, rank.layout, rank.ownership, replica, *world), 0);
        }
    }
}

// Tensors that are summed in one call give the bits of a call for each: odd ones, and such of whole blocks side by
// side.
TEST(SharedNorm, JoinedRangesGiveTheBitsOfSingleTensors) {
    ModelConfig whole = odd_model();
    whole.hidden = 256;
    whole.heads = whole.kv_heads = 4;
    whole.head_dim = 64;
    whole.ffn_hidden = 512;
    for (const ModelConfig& model : {odd_model(), whole}) {
        FakeRank rank({model, {}, {}, staged(1), {}, {}});
        rank.set_weights(weight);
        rank.run(straight_passes(1), gradient, weight);
        ExactSum each;
        for (const LocalTensor& tensor : rank.layout.tensors()) {
            const FlatRange range{tensor.offset, tensor.offset + tensor.logical};
            ops::block_squares<double>(Stream{}, rank.state.gradients.locate(range), range.count(), each);
        }
        ExactSum joined;
        add_squares(Stream{}, rank.state, rank.layout, rank.ownership, rank.place, joined);
        each.normalise();
        joined.normalise();
        EXPECT_EQ(joined.limb, each.limb);
    }
}

TEST(SharedNorm, NonFiniteShows) {
    const auto world = make_single_communicator();
    FakeRank rank({odd_model(), {}, {}, staged(1), {}, {}});
    rank.set_weights(weight);
    rank.run(
        straight_passes(1), [](i64 m, i64 i) { return i == 3 ? nan : gradient(m, i); }, weight);
    EXPECT_TRUE(std::isnan(global_norm<double>(Stream{}, rank.state, rank.layout, rank.ownership, rank.place, *world)));
}

struct Reference {
    std::vector<double> w, m, v;
};

// The formulas of kernels/ops/optimizer.h, element by element.
void step_reference(Reference& ref, const FakeRank& rank, const ops::StepScalars& s) {
    const OptimizerConfig& config = rank.job.optimizer;
    for (const LocalTensor& tensor : rank.layout.tensors()) {
        const double decay = config.weight_decay * tensor.parameter->decay_factor;
        for (i64 i = tensor.offset; i < tensor.offset + tensor.count; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const double g = s.clip * rank.gradient(i);
            if (config.kind == OptimizerKind::sgd) {
                ref.m[at] = config.momentum * ref.m[at] + g;
                ref.w[at] -= s.lr * (ref.m[at] + decay * ref.w[at]);
                continue;
            }
            ref.m[at] = s.beta1 * ref.m[at] + (1 - s.beta1) * g;
            ref.v[at] = s.beta2 * ref.v[at] + (1 - s.beta2) * g * g;
            const double step = ref.m[at] / s.correction1 / (std::sqrt(ref.v[at] / s.correction2) + s.epsilon);
            ref.w[at] -= s.lr * (step + decay * ref.w[at]);
        }
    }
}

class Update : public testing::TestWithParam<OptimizerConfig> {};

TEST_P(Update, FollowsTheFormulaOverTheWholeLayout) {
    for (int zero = 0; zero <= 3; ++zero) {
        FakeJob job{odd_model(), {}, {}, staged(zero), {}, GetParam()};
        FakeRank rank(job);
        rank.set_weights(weight);
        Reference ref;
        ref.w.resize(static_cast<std::size_t>(rank.layout.size()));
        for (std::size_t i = 0; i < ref.w.size(); ++i) {
            ref.w[i] = weight(static_cast<i64>(i));
        }
        ref.m.assign(ref.w.size(), 0);
        ref.v.assign(ref.w.size(), 0);
        for (i64 t = 0; t < 3; ++t) {
            const auto value = [&](i64 i) { return *rank.state.weights.locate({i, i + 1}); };
            rank.run(straight_passes(2), gradient, value);
            ops::StepScalars scalars = make_scalars(job.optimizer, 0.01, 0.7, t);
            scalars.skip = 1;
            rank.update->run(Stream{}, scalars);  // changes nothing
            scalars.skip = 0;
            rank.update->run(Stream{}, scalars);
            step_reference(ref, rank, scalars);
        }
        for (std::size_t i = 0; i < ref.w.size(); ++i) {
            const auto flat = static_cast<i64>(i);
            // A dozen roundings of values below 2 in each of three steps.
            ASSERT_NEAR(*rank.state.weights.locate({flat, flat + 1}), ref.w[i], 2e-14) << i;
            if (!rank.state.moment1.empty()) {
                ASSERT_NEAR(*rank.state.moment1.locate({flat, flat + 1}), ref.m[i], 2e-14) << i;
            }
        }
        EXPECT_TRUE(rank.guards_intact());
    }
}

OptimizerConfig optimizer(OptimizerKind kind, double momentum) {
    OptimizerConfig config;
    config.kind = kind;
    config.weight_decay = 0.3;
    config.momentum = momentum;
    return config;
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Update,
                         testing::Values(optimizer(OptimizerKind::adamw, 0), optimizer(OptimizerKind::sgd, 0),
                                         optimizer(OptimizerKind::sgd, 0.9)));

}  // namespace
}  // namespace ogrom
