// A trace made from a simulation gives the simulation back.
#include "src/pipeline/measured.h"

#include <gtest/gtest.h>

#include "src/pipeline/schedule.h"

#include "tests/unit/pipeline/specs.h"

namespace ogrom::test {
namespace {

// Different on every stage and chunk.
ScheduleCosts uneven_costs(const ScheduleSpec& spec) {
    ScheduleCosts costs{.passes = {}, .transfer = 0};
    for (i64 s = 0; s < spec.stages; ++s) {
        std::vector<PassCosts>& stage = costs.passes.emplace_back();
        for (i64 c = 0; c < spec.virtual_stages; ++c) {
            const double factor = 1 + 0.25 * static_cast<double>(s) + 0.125 * static_cast<double>(c);
            stage.push_back({factor, 1.5 * factor, 0.5 * factor});
        }
    }
    return costs;
}

// What execute records of the passes of one step, and what stands between them.
void record(std::vector<TraceSpan>& spans, const std::vector<PassSpan>& passes, i64 step, double shift) {
    for (const PassSpan& pass : passes) {
        TraceSpan& span = spans.emplace_back();
        span.set_name(name_of(pass.kind));
        span.category = SpanCategory::compute;
        span.step = step;
        span.micro_batch = pass.micro_batch;
        span.chunk = pass.chunk;
        span.start = shift + pass.start;
        span.end = shift + pass.end;
        TraceSpan& sent = spans.emplace_back(span);
        sent.set_name("send activation");
        sent.category = SpanCategory::communication;
    }
}

std::vector<std::vector<TraceSpan>> traced(const Simulation& simulation) {
    std::vector<std::vector<TraceSpan>> ranks;
    for (const std::vector<PassSpan>& passes : simulation.stages) {
        std::vector<TraceSpan>& spans = ranks.emplace_back();
        record(spans, passes, 1, 0);
        record(spans, passes, 2, 250);  // the longest of the specs takes 181
        // an evaluation behind the step
        std::vector<PassSpan> forward = {{ActionKind::forward, 0, 0, 200, 201}, {ActionKind::forward, 1, 0, 201, 202}};
        record(spans, forward, 2, 250);
    }
    record(ranks.front(), simulation.stages.front(), 3, 500);  // a step that the other stages did not end
    return ranks;
}

// Differences of sums around 450 in double: 100 * 6e-14 at the very most.
constexpr double rounding = 1e-11;

TEST(Measured, GivesTheLastWholeStepAndItsCostsBack) {
    for (const ScheduleSpec& spec : all_specs(4, 9)) {
        if (spec.stages < 2) {
            continue;
        }
        const ScheduleCosts costs = uneven_costs(spec);
        const Simulation expected = simulate(spec, make_stage_schedules(spec), costs);
        const auto measured = last_whole_step(spec, traced(expected));
        ASSERT_TRUE(measured.has_value()) << text_of(spec);
        EXPECT_EQ(measured->step, 2) << text_of(spec);
        const std::vector<double> bubble = bubble_of(measured->stages);
        const Simulation again = simulate_measured(*measured);
        EXPECT_NEAR(again.total, expected.total, rounding) << text_of(spec);
        for (std::size_t s = 0; s < bubble.size(); ++s) {
            ASSERT_EQ(measured->stages[s].size(), expected.stages[s].size()) << text_of(spec);
            EXPECT_NEAR(bubble[s], expected.bubble[s], rounding) << text_of(spec);
            EXPECT_NEAR(again.bubble[s], expected.bubble[s], rounding) << text_of(spec);
        }
        const ScheduleCosts means = mean_costs(*measured);
        for (std::size_t s = 0; s < means.passes.size(); ++s) {
            for (std::size_t c = 0; c < means.passes[s].size(); ++c) {
                const PassCosts &got = means.passes[s][c], &want = costs.passes[s][c];
                EXPECT_NEAR(got.forward, want.forward, rounding);
                EXPECT_NEAR(got.backward_input + got.backward_weight, want.backward_input + want.backward_weight,
                            rounding);
            }
        }
    }
}

// One slow pass: the mean spreads it over all, its own time keeps it where it was.
TEST(Measured, OwnTimesKeepAPassThatWasSlow) {
    const ScheduleSpec spec{PipelineSchedule::one_f_one_b, 2, 1, 4};
    const std::vector<StageSchedule> lists = make_stage_schedules(spec);
    ScheduleCosts costs = even_costs(spec, {1, 1, 1}, 0);
    costs.own.assign(2, std::vector<double>(8, 1.0));
    costs.own[0][3] = 9;  // F F B F B F B B: the third forward pass holds up the other stage
    const Simulation expected = simulate(spec, lists, costs);
    std::vector<std::vector<TraceSpan>> ranks(2);
    for (std::size_t s = 0; s < 2; ++s) {
        record(ranks[s], expected.stages[s], 1, 0);
    }
    const auto measured = last_whole_step(spec, ranks);
    ASSERT_TRUE(measured.has_value());
    const Simulation own = simulate_measured(*measured, PassTimes::own), mean = simulate_measured(*measured);
    for (std::size_t s = 0; s < 2; ++s) {
        for (std::size_t n = 0; n < 8; ++n) {
            EXPECT_NEAR(own.stages[s][n].start, expected.stages[s][n].start, rounding);
            EXPECT_NEAR(own.stages[s][n].end, expected.stages[s][n].end, rounding);
        }
    }
    EXPECT_EQ(own.stages[0][3].end - own.stages[0][3].start, 9);
    EXPECT_EQ(mean.stages[0][3].end - mean.stages[0][3].start, (1 + 1 + 9 + 1) / 4.0);
}

TEST(Measured, SaysSoWhereNoStepIsWhole) {
    const ScheduleSpec spec{PipelineSchedule::one_f_one_b, 2, 1, 4};
    std::vector<std::vector<TraceSpan>> ranks(2);
    EXPECT_FALSE(last_whole_step(spec, ranks).has_value());
    const Simulation simulation = simulate(spec, make_stage_schedules(spec), uneven_costs(spec));
    record(ranks[0], simulation.stages[0], 1, 0);
    record(ranks[1], {simulation.stages[1].begin(), simulation.stages[1].end() - 1}, 1, 0);
    EXPECT_FALSE(last_whole_step(spec, ranks).has_value());
}

}  // namespace
}  // namespace ogrom::test
