// Simulated times against the closed forms of the literature.
#include "src/pipeline/simulate.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "kernels/common/error.h"

#include "src/pipeline/schedule.h"

#include "tests/unit/pipeline/specs.h"

namespace ogrom::test {
namespace {

// Sums of at most 1000 numbers of size 10 in double: 1000 * 1000 * 1.1e-16 = 1e-10 at the very most.
constexpr double rounding = 1e-10;

Simulation simulated(const ScheduleSpec& spec, const PassCosts& stage, double transfer = 0) {
    return simulate(spec, make_stage_schedules(spec), even_costs(spec, stage, transfer));
}

// (p - 1)(F + B + W), divided by the chunks; ZB-H1 (p - 1)(F + B - W).
double bubble_formula(const ScheduleSpec& spec, const PassCosts& cost) {
    const auto depth = static_cast<double>(spec.stages - 1);
    const double both = cost.forward + cost.backward_input;
    if (spec.kind == PipelineSchedule::zero_bubble) {
        return depth * (both - cost.backward_weight);
    }
    return depth * (both + cost.backward_weight) / static_cast<double>(spec.virtual_stages);
}

// Equal thirds; a forward shorter than its halves; uneven halves; full recomputation (B := B + F).
class BubbleFormula : public testing::TestWithParam<PassCosts> {};

TEST_P(BubbleFormula, HoldsOnEveryStage) {
    const PassCosts cost = GetParam();
    for (const ScheduleSpec& spec : all_specs(6, 24)) {
        const bool whole_groups = spec.virtual_stages == 1 || spec.micro_batches % spec.stages == 0;
        if (spec.stages < 2 || spec.micro_batches < 2 * spec.stages || !whole_groups) {
            continue;
        }
        const Simulation result = simulated(spec, cost);
        const double expected = bubble_formula(spec, cost);
        const double work =
            static_cast<double>(spec.micro_batches) * (cost.forward + cost.backward_input + cost.backward_weight);
        for (const double bubble : result.bubble) {
            EXPECT_NEAR(bubble, expected, rounding) << text_of(spec);
        }
        EXPECT_NEAR(result.total, work + expected, rounding) << text_of(spec);
    }
}

INSTANTIATE_TEST_SUITE_P(Costs, BubbleFormula,
                         testing::Values(PassCosts{1, 1, 1}, PassCosts{1, 1.25, 0.75}, PassCosts{1.5, 1, 0.5},
                                         PassCosts{2, 1.5, 1.25}, PassCosts{1, 1 + 1, 1}));

// One stage has no bubble; a transfer costs what lies on the way of the first and last micro-batch at least.
TEST(Simulate, OneStageIsAlwaysBusy) {
    for (const ScheduleSpec& spec : all_specs(1, 5)) {
        const Simulation result = simulated(spec, {1, 0.5, 0.25}, 100);
        EXPECT_NEAR(result.total, 1.75 * static_cast<double>(spec.micro_batches), rounding) << text_of(spec);
        EXPECT_NEAR(result.bubble[0], 0, rounding);
    }
}

TEST(Simulate, OneMicroBatchGoesDownAndUp) {
    for (i64 p = 2; p <= 5; ++p) {
        const auto hops = static_cast<double>(p - 1), stages = static_cast<double>(p);
        const Simulation result = simulated({PipelineSchedule::one_f_one_b, p, 1, 1}, {3, 2, 1}, 0.5);
        EXPECT_NEAR(result.total, stages * 6 + 2 * hops * 0.5, rounding);
        // Both weight halves but the first stage's lie off the way: F and I of all stages, W of stage 0.
        const Simulation split = simulated({PipelineSchedule::zero_bubble, p, 1, 1}, {3, 2, 1}, 0.5);
        EXPECT_NEAR(split.total, stages * 5 + 1 + 2 * hops * 0.5, rounding);
    }
}

// Receives posted ahead: with transfers shorter than a pass, gpipe hides all but those of the first micro-batch down
// and up the pipeline.
TEST(Simulate, TransfersOverlapWithPasses) {
    const ScheduleSpec spec = {PipelineSchedule::gpipe, 4, 1, 16};
    const Simulation result = simulated(spec, {1, 1, 1}, 0.5);
    EXPECT_NEAR(result.total, 16 * 3 + 3 * 3 + 2 * 3 * 0.5, rounding);
}

// The step ends for all when the slowest stage is done: a stage with less work waits longer.
TEST(Simulate, UnevenStagesWaitForTheNorm) {
    const ScheduleSpec spec = {PipelineSchedule::one_f_one_b, 3, 1, 8};
    const std::vector<std::vector<i64>> layers = {{2}, {1}, {2}};
    const ScheduleCosts costs = layer_costs(layers, {1, 1, 1}, {0.5, 0.25, 0.25}, 0);
    EXPECT_EQ(costs.passes[1][0].forward, 1);
    EXPECT_EQ(costs.passes[2][0].forward, 2.5);
    EXPECT_EQ(costs.passes[2][0].backward_input, 2.25);
    const Simulation result = simulate(spec, make_stage_schedules(spec), costs);
    const std::vector<double> work = {8 * 6, 8 * 3, 8 * 7};
    for (std::size_t s = 0; s < work.size(); ++s) {
        EXPECT_NEAR(result.bubble[s], result.total - work[s], rounding);
    }
    EXPECT_GE(result.total, 8 * 7 + 3);
}

TEST(Simulate, SpansFollowTheList) {
    for (const ScheduleSpec& spec : all_specs(4, 7)) {
        const std::vector<StageSchedule> lists = make_stage_schedules(spec);
        const Simulation result = simulate(spec, lists, even_costs(spec, {1, 2, 0.5}, 0.1));
        for (std::size_t s = 0; s < lists.size(); ++s) {
            std::size_t n = 0;
            double clock = 0;
            for (const Action& action : lists[s].actions) {
                if (!is_compute(action.kind)) {
                    continue;
                }
                ASSERT_LT(n, result.stages[s].size());
                const PassSpan& span = result.stages[s][n++];
                EXPECT_EQ(span.kind, action.kind);
                EXPECT_EQ(span.micro_batch, action.micro_batch);
                EXPECT_EQ(span.chunk, action.chunk);
                EXPECT_GE(span.start, clock);
                clock = span.end;
            }
            EXPECT_EQ(n, result.stages[s].size());
        }
    }
}

TEST(Simulate, EvaluationAndBrokenLists) {
    const ScheduleSpec spec = {PipelineSchedule::one_f_one_b, 3, 1, 4};
    const ScheduleCosts costs = even_costs(spec, {1, 1, 1}, 0);
    const Simulation result = simulate(spec, make_evaluation_stage_schedules(spec), costs, SchedulePurpose::evaluation);
    EXPECT_NEAR(result.total, 4 + 2, rounding);
    std::vector<StageSchedule> lists = make_stage_schedules(spec);
    lists[1].actions.pop_back();
    EXPECT_THROW(simulate(spec, lists, costs), Error);
}

}  // namespace
}  // namespace ogrom::test
