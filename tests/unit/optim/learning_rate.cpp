#include "src/optim/learning_rate.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

namespace ogrom {
namespace {

OptimizerConfig schedule(ScheduleKind kind) {
    OptimizerConfig optimizer;
    optimizer.lr = 3e-4;
    optimizer.min_lr = 3e-5;
    optimizer.schedule = kind;
    optimizer.warmup_steps = 100;
    optimizer.decay_steps = 1000;
    return optimizer;
}

TEST(LearningRate, WarmUpPeaksAtOptimizerStep100) {
    for (const ScheduleKind kind :
         {ScheduleKind::cosine, ScheduleKind::linear, ScheduleKind::constant, ScheduleKind::wsd}) {
        const OptimizerConfig optimizer = schedule(kind);
        EXPECT_DOUBLE_EQ(learning_rate(optimizer, 2000, 0), 3e-6);
        EXPECT_DOUBLE_EQ(learning_rate(optimizer, 2000, 49), 1.5e-4);
        EXPECT_EQ(learning_rate(optimizer, 2000, 99), 3e-4);
        EXPECT_LT(learning_rate(optimizer, 2000, 98), 3e-4);
    }
}

TEST(LearningRate, CosineAndLinearEndAtTheirStep) {
    const OptimizerConfig cosine = schedule(ScheduleKind::cosine);
    EXPECT_EQ(learning_rate(cosine, 1000, 99), 3e-4);  // once
    EXPECT_LT(learning_rate(cosine, 1000, 100), 3e-4);
    EXPECT_NEAR(learning_rate(cosine, 1000, 549), (3e-4 + 3e-5) / 2, 1e-19);  // half way; one rounding of 3e-4
    EXPECT_NEAR(learning_rate(cosine, 1000, 999), 3e-5, 1e-19);               // the last of 1000 steps
    EXPECT_GT(learning_rate(cosine, 1000, 998), 3e-5);
    EXPECT_EQ(learning_rate(cosine, 1000, 999), learning_rate(cosine, 1000, 5000));
    const OptimizerConfig linear = schedule(ScheduleKind::linear);
    EXPECT_NEAR(learning_rate(linear, 1000, 324), 3e-4 - 0.25 * 2.7e-4, 1e-19);
    EXPECT_NEAR(learning_rate(linear, 1000, 999), 3e-5, 1e-19);
}

TEST(LearningRate, WsdHoldsThenFalls) {
    OptimizerConfig wsd = schedule(ScheduleKind::wsd);
    wsd.decay_steps = 200;
    EXPECT_EQ(learning_rate(wsd, 1000, 799), 3e-4);
    EXPECT_EQ(learning_rate(wsd, 1000, 500), 3e-4);
    EXPECT_NEAR(learning_rate(wsd, 1000, 899), (3e-4 + 3e-5) / 2, 1e-19);
    EXPECT_NEAR(learning_rate(wsd, 1000, 999), 3e-5, 1e-19);
}

TEST(LearningRate, EdgesAreDefined) {
    OptimizerConfig cosine = schedule(ScheduleKind::cosine);
    cosine.warmup_steps = 0;
    EXPECT_EQ(learning_rate(cosine, 1000, 0), 3e-4);
    cosine.decay_steps = cosine.warmup_steps = 100;  // nothing between warm-up and the end
    EXPECT_EQ(learning_rate(cosine, 1000, 99), 3e-4);
    EXPECT_NEAR(learning_rate(cosine, 1000, 100), 3e-5, 1e-19);
    EXPECT_EQ(learning_rate(schedule(ScheduleKind::constant), 1000, 999), 3e-4);
}

// B13: the rate of a step does not depend on where the process started.
TEST(LearningRate, ResumeAt50And100And500GivesTheSameBits) {
    for (const ScheduleKind kind : {ScheduleKind::cosine, ScheduleKind::linear, ScheduleKind::wsd}) {
        const OptimizerConfig optimizer = schedule(kind);
        std::vector<double> straight;
        for (i64 step = 0; step < 1000; ++step) {
            straight.push_back(learning_rate(optimizer, 1000, step));
        }
        for (const i64 from : {50, 100, 500}) {
            const OptimizerConfig again = schedule(kind);
            for (i64 step = from; step < 1000; ++step) {
                ASSERT_EQ(std::bit_cast<u64>(learning_rate(again, 1000, step)),
                          std::bit_cast<u64>(straight[static_cast<std::size_t>(step)]))
                    << "step " << step << " resumed at " << from;
            }
        }
    }
}

}  // namespace
}  // namespace ogrom
