// The same global batch under every cut into ranks and micro-batches (field
// cases B02, B04, B05). Each test runs over all ranks of the program and
// compares on rank 0 with a training by rank 0 alone.
#include <cmath>
#include <gtest/gtest.h>

#include "tests/equivalence/tiny.h"

namespace ogrom::test {
namespace {

using Overrides = std::vector<std::string>;

struct Twin {
    double loss = 0, norm = 0, weights = 0;  // differences, relative
    double first_norm = 0;
    double first_loss = 0;
};

// Trains over all ranks with each cut of a global batch of 12 and compares with
// one micro-batch of 12 on one rank.
template <class T>
std::vector<Twin> compare(const Overrides& overrides, const Lesson& course, bool change_only = false) {
    const i64 dp = session().size();
    std::vector<Twin> twins;
    const bool leads = session().rank() == 0;
    const History<T> alone = leads ? train_alone<T>({12, 1}, overrides, course) : History<T>{};
    for (const i64 micro : {1, 3, 12}) {
        if (12 % (micro * dp) != 0) {
            continue;
        }
        const RunConfig run = tiny_run(dp, {micro, 12 / (micro * dp)}, overrides);
        const History<T> cut = train_over<T>(session().world(), run, course);
        if (leads) {
            const TinyLayout layout(run);
            EXPECT_EQ(cut.losses.size(), alone.losses.size());
            twins.push_back(
                {largest_difference(cut.losses, alone.losses), largest_difference(cut.norms, alone.norms),
                 tensor_difference(layout.layout, cut.weights, alone.weights, change_only ? &alone.before : nullptr),
                 cut.norms[0], cut.losses[0]});
        }
    }
    EXPECT_EQ(twins.empty(), !leads) << "no cut of the batch fits these ranks";
    return twins;
}

// fp64, 20 AdamW steps with clipping: rounding of 1e-16 grows to about 1e-11
// over 20 steps; a fault of 1e-6 shows.
TEST(Layouts, TwentyStepsInDoubleAgree) {
    for (const Twin& twin : compare<double>({}, {.steps = 20})) {
        EXPECT_LE(twin.loss, 1e-9);
        EXPECT_LE(twin.norm, 1e-9);
        EXPECT_LE(twin.weights, 1e-9);
    }
}

TEST(Layouts, UntiedHeadAgrees) {
    for (const Twin& twin : compare<double>({"model.tied=false"}, {.steps = 5})) {
        EXPECT_LE(twin.loss, 1e-9);
        EXPECT_LE(twin.norm, 1e-9);
        EXPECT_LE(twin.weights, 1e-9);
    }
}

// Dropout is drawn by global sample, so it does not depend on the cut either.
TEST(Layouts, DropoutAgrees) {
    const Overrides dropout = {"model.dropout_embedding=0.1", "model.dropout_attention=0.1",
                               "model.dropout_residual=0.1"};
    for (const Twin& twin : compare<double>(dropout, {.steps = 5})) {
        EXPECT_LE(twin.loss, 1e-9);
        EXPECT_LE(twin.norm, 1e-9);
        EXPECT_LE(twin.weights, 1e-9);
    }
}

// fp32: each loss is a mean of 288 terms of relative error 1e-7, moved by
// weights that differ by up to 1e-5.
TEST(Layouts, LossesInSingleAgree) {
    for (const Twin& twin : compare<float>({"numerics.compute=fp32"}, {.steps = 20})) {
        EXPECT_LE(twin.loss, 1e-5);
    }
}

// B02: gains of the norms times 100, so that counting one of their gradients
// twice moves the norm by more than 10 %.
TEST(Layouts, NormIsTheWholeGradients) {
    for (const Twin& twin : compare<double>({}, {.steps = 1, .mask = all_targets, .gain = 100})) {
        EXPECT_LE(twin.norm, 1e-10);  // sums of 1.6e5 terms in double
    }
    if (session().rank() == 0) {
        const std::unique_ptr<Communicator> alone = make_single_communicator();
        const RunConfig run = tiny_run(1, {12, 1});
        double sum = 0;
        const auto engine = make_engine<double>(*alone, run);
        for (const LocalTensor& tensor : engine->layout.tensors()) {
            if (tensor.parameter->initial == Initial::ones) {
                for (i64 i = 0; i < tensor.count; ++i) {
                    weights_of(*engine)[static_cast<std::size_t>(tensor.offset + i)] *= 100;
                }
            }
        }
        const std::vector<Batch> batches = make_batches(run, 0, 0);
        const double norm =
            train_step<double>(*engine, batches, agree_control(engine->mesh, batches, Wish::go_on).targets).norm;
        for (const double g : engine->state.gradients.data().first(static_cast<std::size_t>(engine->layout.size()))) {
            sum += g * g;  // padding rows are 0
        }
        EXPECT_NEAR(norm, std::sqrt(sum), 1e-10 * norm);
    }
}

const Overrides plain_sgd = {"optimizer.kind=sgd",          "optimizer.lr=1.0",        "optimizer.warmup_steps=0",
                             "optimizer.schedule=constant", "optimizer.clip_norm=0.0", "optimizer.weight_decay=0.0"};

// B04: SGD with rate 1 and no clipping shows the gradient itself; Adam would
// hide a constant factor.
TEST(Layouts, SgdChangeIsTheSameForEveryAccumulation) {
    for (const Twin& twin : compare<double>(plain_sgd, {.steps = 1}, true)) {
        EXPECT_LE(twin.weights, 1e-10);
        EXPECT_LE(twin.norm, 1e-10);
        EXPECT_LE(twin.loss, 1e-10);
    }
}

// B05: samples with 11 and with (up to) 24 unmasked targets, and whole
// micro-batches without any.
i64 uneven_targets(i64 sample) {
    if (sample % 12 >= 9) {
        return 0;
    }
    return sample % 2 == 0 ? 11 : 24;
}

TEST(Layouts, UnevenMasksWeighEveryTargetAlike) {
    for (const Twin& twin : compare<double>(plain_sgd, {.steps = 1, .mask = uneven_targets}, true)) {
        EXPECT_LE(twin.weights, 1e-10);
        EXPECT_LE(twin.loss, 1e-10);
        EXPECT_TRUE(std::isfinite(twin.first_loss));
    }
}

i64 no_targets(i64) {
    return 0;
}

TEST(Layouts, ABatchWithoutTargetsChangesNothing) {
    const RunConfig run = tiny_run(session().size(), {3, 1}, plain_sgd);
    const History<double> history = train_over<double>(session().world(), run, {.steps = 2, .mask = no_targets});
    EXPECT_EQ(history.losses, std::vector<double>(2, 0.0));
    EXPECT_EQ(history.norms, std::vector<double>(2, 0.0));
    EXPECT_EQ(history.weights, history.before);
}

}  // namespace
}  // namespace ogrom::test
