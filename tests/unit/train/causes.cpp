#include "src/train/causes.h"

#include <gtest/gtest.h>

#include "src/pipeline/schedule.h"
#include "src/pipeline/simulate.h"

namespace ogrom {
namespace {

constexpr double bound = 1e-12;  // a dozen sums and differences of seconds near 10

TraceSpan span(std::string_view name, SpanCategory category, double start, double end) {
    TraceSpan made;
    made.set_name(name);
    made.category = category;
    made.start = start;
    made.end = end;
    return made;
}

TraceSpan pass(double start, double end) {
    return span("forward", SpanCategory::compute, start, end);
}
TraceSpan wait(std::string_view name, double start, double end) {
    return span(name, SpanCategory::wait, start, end);
}
TraceSpan moves(std::string_view name, double start, double end) {
    return span(name, SpanCategory::communication, start, end);
}

StepCauses causes(std::vector<TraceSpan> spans, const MeshShape& mesh = {.dp = 2}, double bubble = 0) {
    const StepCauses found = causes_of(spans, 0, 10, mesh, bubble);
    EXPECT_NEAR(found.sum(), 10, bound);
    EXPECT_EQ(found.step, 10);
    return found;
}

TEST(Causes, WithoutSpansAllIsOther) {
    EXPECT_EQ(causes({}).other, 10);
}

TEST(Causes, OverlappedCommunicationIsNotExposed) {
    const StepCauses c = causes({pass(0, 6), moves("gradients (dp)", 2, 7)});
    EXPECT_NEAR(c.compute, 6, bound);
    EXPECT_NEAR(c.data_comm, 1, bound);
    EXPECT_NEAR(c.other, 3, bound);
}

TEST(Causes, AWaitWithinAPassIsNoCompute) {
    const StepCauses c = causes({wait("tp: activations", 2, 3.5), pass(1, 6), moves("activations (tp)", 1.5, 3.5)});
    EXPECT_NEAR(c.tensor_comm, 1.5, bound);
    EXPECT_NEAR(c.compute, 3.5, bound);
    EXPECT_NEAR(c.other, 5, bound);
}

TEST(Causes, EveryAxisHasItsCause) {
    const StepCauses c = causes({wait("tp: x", 0, 1), wait("dp: x", 1, 3), wait("zero: x", 3, 4),
                                 wait("replica: x", 4, 5), wait("pp forward: x", 5, 6), wait("pp backward: x", 6, 7),
                                 wait("tie: x", 7, 8), wait("wait for activation", 8, 9)},
                                {.pp = 2, .dp = 2, .tp = 2});
    EXPECT_NEAR(c.tensor_comm, 1, bound);
    EXPECT_NEAR(c.data_comm, 4, bound);
    EXPECT_NEAR(c.pipeline_comm, 4, bound);
}

TEST(Causes, TheRestHasItsCauseAndNothingCountsTwice) {
    const StepCauses c = causes({span("wait for data", SpanCategory::data, 0, 1), pass(1, 4), pass(4, 5),
                                 span("update", SpanCategory::optimizer, 5, 9), wait("dp: parameters", 6, 8),
                                 span("x", SpanCategory::other, 0, 10)});
    EXPECT_NEAR(c.data_wait, 1, bound);
    EXPECT_NEAR(c.compute, 4, bound);
    EXPECT_NEAR(c.optimizer, 2, bound);
    EXPECT_NEAR(c.data_comm, 2, bound);
    EXPECT_NEAR(c.other, 1, bound);
}

TEST(Causes, SpansAreCutAtTheStep) {
    const StepCauses c = causes({pass(-5, 1), pass(9, 12), pass(20, 30)});
    EXPECT_NEAR(c.compute, 2, bound);
}

TEST(Causes, WhatAllAgreeOnBelongsToTheWidestWait) {
    const TraceSpan norm = wait("world: gradient norm", 4, 6);
    EXPECT_NEAR(causes({norm}, {.dp = 2, .tp = 2}).data_comm, 2, bound);
    EXPECT_NEAR(causes({norm}, {.tp = 2}).tensor_comm, 2, bound);
    EXPECT_NEAR(causes({norm}, {.pp = 2, .dp = 2}, 0).pipeline_comm, 2, bound);
    EXPECT_NEAR(causes({norm}, {.pp = 2}, 1.5).bubble, 1.5, bound);
}

TEST(Causes, BubbleIsWhatTheScheduleHasAndNoMoreThanWasWaited) {
    const std::vector<TraceSpan> spans = {pass(0, 5), wait("wait for gradient", 5, 9),
                                          wait("pp backward: pipeline gradient", 5, 9)};
    const StepCauses c = causes(spans, {.pp = 2}, 3);
    EXPECT_NEAR(c.bubble, 3, bound);
    EXPECT_NEAR(c.pipeline_comm, 1, bound);
    EXPECT_NEAR(causes(spans, {.pp = 2}, 7).bubble, 4, bound);
}

// 1F1B of 2 stages, forward 1 s, backward 2 s, 2 micro-batches: (p - 1)(F + B) = 3 s idle on each stage. The measured
// passes stand further apart, which is not the schedule's doing.
TEST(Causes, SimulatedBubbleIsThatOfThePassesWithoutTheirWaits) {
    const ScheduleSpec spec{PipelineSchedule::one_f_one_b, 2, 1, 2};
    const Simulation ideal =
        simulate(spec, make_stage_schedules(spec),
                 {.passes = {{{.forward = 1, .backward_input = 2}}, {{.forward = 1, .backward_input = 2}}}});
    std::vector<std::vector<PassSpan>> stages = ideal.stages;
    for (std::vector<PassSpan>& stage : stages) {
        double shift = 0;
        for (PassSpan& one : stage) {
            one.start += shift;
            one.end += shift;
            shift += 0.5;
        }
    }
    const std::vector<double> bubble = simulated_bubble(spec, stages);
    ASSERT_EQ(bubble.size(), 2U);
    EXPECT_NEAR(bubble[0], 3, bound);
    EXPECT_NEAR(bubble[1], 3, bound);
    stages[1].pop_back();
    EXPECT_EQ(simulated_bubble(spec, stages), (std::vector<double>{0, 0}));
    EXPECT_EQ(simulated_bubble({}, {}), std::vector<double>{0});
}

TEST(Causes, MeansAreSumsOfEveryField) {
    StepCauses a;
    a.compute = 1;
    a.other = 2;
    a.step = 3;
    const StepCauses mean = add(add({}, a, 0.5), a, 0.5);
    EXPECT_EQ(mean.compute, 1);
    EXPECT_EQ(mean.other, 2);
    EXPECT_EQ(mean.step, 3);
    EXPECT_EQ(cause_names().size(), 9U);
}

}  // namespace
}  // namespace ogrom
