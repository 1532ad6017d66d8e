#include "src/optim/loss_scaling.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "kernels/common/error.h"

namespace ogrom {
namespace {

using Outcome = LossScaling::Outcome;
using State = std::map<std::string, std::string>;
constexpr double infinite = std::numeric_limits<double>::infinity();
const double not_a_number = std::nan("");

PrecisionConfig fp16(i64 initial, i64 window, i64 smallest) {
    return {
        .weights = Dtype::fp16, .loss_scale_initial = initial, .loss_scale_window = window, .loss_scale_min = smallest};
}

TEST(LossScaling, OtherTypesHaveNone) {
    for (const Dtype type : {Dtype::fp32, Dtype::fp64, Dtype::bf16}) {
        PrecisionConfig precision = fp16(1024, 1, 1);
        precision.weights = type;
        LossScaling scaling(precision);
        for (int step = 0; step < 5; ++step) {
            EXPECT_EQ(scaling.judge(1, 2), Outcome::good);
            EXPECT_EQ(scaling.factor(), 1);
        }
        EXPECT_EQ(scaling.judge(1, infinite), Outcome::fault);
        EXPECT_EQ(scaling.factor(), 1);
        State state;
        scaling.save(state);
        EXPECT_TRUE(state.empty());
    }
}

TEST(LossScaling, HalvesAtAnOverflowAndDoublesAfterTheWindow) {
    LossScaling scaling(fp16(1024, 3, 1));
    EXPECT_EQ(scaling.judge(1, infinite), Outcome::overflow);
    EXPECT_EQ(scaling.judge(1, not_a_number), Outcome::overflow);
    EXPECT_EQ(scaling.factor(), 256);
    for (const double factor : {256.0, 256.0, 512.0, 512.0, 512.0, 1024.0}) {
        EXPECT_EQ(scaling.judge(1, 7), Outcome::good);
        EXPECT_EQ(scaling.factor(), factor);
    }
    // An overflow begins the count anew.
    EXPECT_EQ(scaling.judge(1, 7), Outcome::good);
    EXPECT_EQ(scaling.judge(1, 7), Outcome::good);
    EXPECT_EQ(scaling.judge(1, infinite), Outcome::overflow);
    for (const double factor : {512.0, 512.0, 1024.0}) {
        EXPECT_EQ(scaling.judge(1, 7), Outcome::good);
        EXPECT_EQ(scaling.factor(), factor);
    }
}

TEST(LossScaling, StaysWithinItsBounds) {
    LossScaling low(fp16(8, 2, 4));
    EXPECT_EQ(low.judge(1, infinite), Outcome::overflow);
    EXPECT_EQ(low.judge(1, infinite), Outcome::fault) << "the smallest factor does not help";
    EXPECT_EQ(low.factor(), 4);
    LossScaling high(fp16(1 << 23, 1, 1));
    for (int step = 0; step < 4; ++step) {
        EXPECT_EQ(high.judge(1, 1), Outcome::good);
        EXPECT_EQ(high.factor(), LossScaling::largest);
    }
}

// The loss is made before anything is scaled.
TEST(LossScaling, ALossThatIsNotFiniteIsAFault) {
    LossScaling scaling(fp16(1024, 3, 1));
    EXPECT_EQ(scaling.judge(not_a_number, not_a_number), Outcome::fault);
    EXPECT_EQ(scaling.judge(infinite, 1), Outcome::fault);
    EXPECT_EQ(scaling.factor(), 1024);
}

TEST(LossScaling, AFixedOneNeverMoves) {
    PrecisionConfig precision = fp16(128, 1, 1);
    precision.loss_scale = LossScaleKind::fixed;
    LossScaling scaling(precision);
    EXPECT_EQ(scaling.judge(1, 1), Outcome::good);
    EXPECT_EQ(scaling.judge(1, infinite), Outcome::fault);
    EXPECT_EQ(scaling.factor(), 128);
    State state;
    scaling.save(state);
    EXPECT_TRUE(state.empty());
}

TEST(LossScaling, GoesOnFromItsState) {
    LossScaling straight(fp16(65536, 4, 1));
    straight.judge(1, infinite);
    straight.judge(1, 1);
    straight.judge(1, 1);
    State state = {{"kernels", "avx2"}};
    straight.save(state);
    EXPECT_EQ(state, (State{{"kernels", "avx2"}, {"loss_scale", "32768"}, {"loss_scale_good_steps", "2"}}));
    LossScaling resumed(fp16(65536, 4, 1));
    resumed.load(state);
    for (const double norm : {1.0, 1.0, 1.0, infinite, 1.0, 1.0, 1.0, 1.0}) {
        EXPECT_EQ(resumed.judge(1, norm), straight.judge(1, norm));
        EXPECT_EQ(resumed.factor(), straight.factor());
    }
    EXPECT_EQ(straight.factor(), 65536);
    // A window that has become shorter ends with the next good step.
    LossScaling shorter(fp16(65536, 2, 1));
    shorter.load({{"loss_scale", "8"}, {"loss_scale_good_steps", "3"}});
    EXPECT_EQ(shorter.judge(1, 1), Outcome::good);
    EXPECT_EQ(shorter.factor(), 16);
    // Of a checkpoint without: as at the start.
    LossScaling fresh(fp16(512, 4, 1));
    fresh.load({});
    EXPECT_EQ(fresh.factor(), 512);
}

TEST(LossScaling, RefusesWhatIsNoState) {
    for (const State& state : {State{{"loss_scale", "1000"}}, State{{"loss_scale", "0"}}, State{{"loss_scale", "-4"}},
                               State{{"loss_scale", "x"}}, State{{"loss_scale", "33554432"}},
                               State{{"loss_scale", "8"}, {"loss_scale_good_steps", "-1"}}}) {
        LossScaling scaling(fp16(65536, 4, 1));
        try {
            scaling.load(state);
            ADD_FAILURE() << state.begin()->second << " was taken";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::checkpoint);
        }
    }
}

}  // namespace
}  // namespace ogrom
