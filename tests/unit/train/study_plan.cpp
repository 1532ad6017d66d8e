#include "src/train/study_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/train/measure.h"

namespace ogrom {
namespace {

std::string text(const std::string& train) {
    return fmt::format(R"([model]
layers = 4
hidden = 64
heads = 4
vocab = 257
sequence = 32
[data]
train = "corpus"
[train]
steps = 5
{}
[optimizer]
lr = 1e-3
)",
                       train);
}

ResolveRun resolver(const std::string& train = "global_batch = 8") {
    return [train](const std::vector<std::string>& overrides, i64 ranks) {
        ParseInput input;
        input.path = "study.toml";
        input.text = text(train);
        input.overrides = overrides;
        input.ranks = ranks;
        return parse_run(input);
    };
}

StudyWish wish(std::vector<StudyLayout> layouts, std::vector<i64> ranks = {1, 2, 4}) {
    StudyWish made;
    made.name = "t";
    made.kinds = {StudyKind::weak, StudyKind::strong};
    made.ranks = std::move(ranks);
    made.layouts = std::move(layouts);
    made.steps = {2, 10};
    return made;
}

const PlannedPoint& find(const std::vector<PlannedPoint>& points, const std::string& id) {
    for (const PlannedPoint& point : points) {
        if (point.id == id) {
            return point;
        }
    }
    ADD_FAILURE() << "no point " << id;
    return points.front();
}

std::string refusal(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    ADD_FAILURE() << "nothing was refused";
    return {};
}

TEST(StudyPlan, WeakKeepsTheTokensOfARankStrongTheGlobalBatch) {
    const auto points = plan_study(wish({{"dp", {}, "dp"}}), resolver());
    ASSERT_EQ(points.size(), 6U);
    for (const i64 n : {1, 2, 4}) {
        const RunConfig& weak = find(points, fmt::format("weak-dp-n{}", n)).run;
        EXPECT_EQ(weak.parallel.data, n);
        EXPECT_EQ(weak.train.global_batch, 8 * n);
        EXPECT_EQ(weak.train.micro_batch, 4);
        EXPECT_EQ(weak.train.accumulation, 2);
        const RunConfig& strong = find(points, fmt::format("strong-dp-n{}", n)).run;
        EXPECT_EQ(strong.train.global_batch, 8);
        EXPECT_EQ(strong.train.micro_batch, n == 4 ? 2 : 4);
        EXPECT_EQ(strong.train.steps, 12);  // the file's 5 do not suffice
    }
}

TEST(StudyPlan, TheBatchIsThatOfTheSmallestRun) {
    const auto points = plan_study(wish({{"dp", {}, "dp"}}, {2, 4}), resolver("micro_batch = 3\naccumulation = 2"));
    EXPECT_EQ(find(points, "weak-dp-n2").run.train.global_batch, 12);
    EXPECT_EQ(find(points, "weak-dp-n4").run.train.global_batch, 24);
    EXPECT_EQ(find(points, "strong-dp-n4").run.train.global_batch, 12);
    EXPECT_EQ(find(points, "strong-dp-n4").run.train.micro_batch, 3);
}

TEST(StudyPlan, EveryAxisGrowsAndLayoutsStandSideBySide) {
    const auto points = plan_study(
        wish({{"zero3", {"parallel.zero=3"}, "dp"}, {"tp", {}, "tp"}, {"pp x tp2", {"parallel.tensor=2"}, "pp"}}),
        resolver());
    const auto shape = [&](const std::string& id) {
        const ParallelConfig& p = find(points, id).run.parallel;
        return std::vector<i64>{p.pipeline, p.data, p.tensor, p.zero};
    };
    EXPECT_EQ(shape("weak-zero3-n4"), (std::vector<i64>{1, 4, 1, 3}));
    EXPECT_EQ(shape("weak-tp-n4"), (std::vector<i64>{1, 1, 4, 0}));
    EXPECT_EQ(shape("strong-pp_x_tp2-n4"), (std::vector<i64>{2, 1, 2, 0}));
    EXPECT_EQ(find(points, "weak-tp-n4").run.train.global_batch, 32);
    EXPECT_EQ(find(points, "weak-tp-n4").axis, "tp");
}

TEST(StudyPlan, KeysOfAWideAxisRestWhereItIsOne) {
    const auto points = plan_study(wish({{"sp", {"parallel.sequence_parallel=true"}, "tp"}}), resolver());
    EXPECT_TRUE(find(points, "weak-sp-n1").refused.empty()) << find(points, "weak-sp-n1").refused;
    EXPECT_FALSE(find(points, "weak-sp-n1").run.parallel.sequence_parallel);
    EXPECT_TRUE(find(points, "weak-sp-n4").run.parallel.sequence_parallel);
}

TEST(StudyPlan, WhatCannotRunAtASizeIsAPointWithItsReason) {
    const auto points = plan_study(wish({{"tp", {}, "tp"}, {"tp2", {"parallel.tensor=2"}, "dp"}}, {1, 3}), resolver());
    EXPECT_NE(find(points, "weak-tp-n3").refused.find("heads"), std::string::npos)
        << find(points, "weak-tp-n3").refused;
    EXPECT_NE(find(points, "weak-tp2-n1").refused.find("2 does not divide 1 rank"), std::string::npos)
        << find(points, "weak-tp2-n1").refused;
    EXPECT_TRUE(find(points, "weak-tp-n1").refused.empty());
    const auto shares = plan_study(wish({{"dp", {}, "dp"}}, {1, 3}), resolver());
    EXPECT_NE(find(shares, "strong-dp-n3").refused.find("8 cannot be shared by 3"), std::string::npos);
    EXPECT_TRUE(find(shares, "weak-dp-n3").refused.empty());
}

TEST(StudyPlan, FaultsOfTheUserEndItBeforeAnythingRuns) {
    EXPECT_NE(refusal([] {
                  (void)plan_study(wish({{"a", {"parallel.zeroo=3"}, "dp"}}), resolver());
              }).find("zeroo"),
              std::string::npos);
    EXPECT_NE(refusal([] {
                  (void)plan_study(wish({{"a b", {}, "dp"}, {"a_b", {}, "dp"}}), resolver());
              }).find("a_b"),
              std::string::npos);
    EXPECT_NE(refusal([] {
                  (void)plan_study(wish({{"tp8", {"parallel.tensor=2"}, "dp"}}, {1}), resolver());
              }).find("no point"),
              std::string::npos);
}

TEST(StudyLayouts, AreReadFromTheirText) {
    const StudyLayout layout =
        parse_study_layout("tp + pp: parallel.pipeline=2  axis=tp parallel.schedule=gpipe", "dp");
    EXPECT_EQ(layout.label, "tp + pp");
    EXPECT_EQ(layout.axis, "tp");
    EXPECT_EQ(layout.overrides, (std::vector<std::string>{"parallel.pipeline=2", "parallel.schedule=gpipe"}));
    EXPECT_EQ(parse_study_layout("x:", "pp").axis, "pp");
    EXPECT_NE(refusal([] { (void)parse_study_layout("parallel.zero=3", "dp"); }).find("no name"), std::string::npos);
    EXPECT_NE(refusal([] { (void)parse_study_layout(": a=1", "dp"); }).find("no name"), std::string::npos);
    EXPECT_NE(refusal([] { (void)parse_study_layout("a: axis=cp", "dp"); }).find("axis=pp"), std::string::npos);
    EXPECT_NE(refusal([] { (void)parse_study_layout("a: zero", "dp"); }).find("key=value"), std::string::npos);
    EXPECT_EQ(zero_layouts().size(), 4U);
}

// B58: ffn 3 x hidden, a vocabulary whose logits dominate, two layers. By hand, per token: each layer multiplies by
// 4 C^2 + 2 C F = 4 x 64^2 + 2 x 64 x 192 = 40 960 weights, 2 flops each; attention sees (32 + 1) / 2 pairs of 4 C
// flops; the head 2 x 64 x 200 000; backward is twice the forward.
TEST(StudyFlops, B58MatchTheHandCountAndRecomputationDoesNotChangeThem) {
    constexpr double by_hand = 3 * (2 * (2 * 40'960.0 + 16.5 * 4 * 64) + 2.0 * 64 * 200'000);
    std::vector<StudyPoint> points;
    for (const std::string mode : {"none", "selective", "full"}) {
        std::vector<std::string> overrides = {"model.layers=2", "model.ffn_hidden=192", "model.vocab=200000",
                                              "train.recompute=\"" + mode + "\""};
        points.push_back(describe_point(resolver()(overrides, 1)));
        EXPECT_NEAR(points.back().model_flops_per_token, by_hand, 0.01 * by_hand) << mode;
        EXPECT_GT(points.back().model_flops_square_per_token, points.back().model_flops_per_token);
        EXPECT_EQ(points.back().recompute, mode);
    }
    EXPECT_EQ(points[0].model_flops_per_token, points[2].model_flops_per_token);
    EXPECT_GT(points[2].hardware_flops_per_token, points[0].hardware_flops_per_token);
}

// Rows join; means go by their number of steps; medians, not means, of a repeat.
TEST(Repeats, JoinByTheirSteps) {
    StudyPoint a, b;
    a.tokens_per_step = 100;
    a.step_s = {{1, 1, 10}};
    a.causes.resize(1);
    a.causes[0].compute = a.causes[0].step = 4;
    b = a;
    b.step_s = {{2}};
    b.skipped_steps = 2;
    b.causes[0].compute = b.causes[0].step = 8;
    join_repeat(a, b);
    EXPECT_EQ(a.step_s.size(), 2U);
    EXPECT_EQ(a.skipped_steps, 2);
    EXPECT_EQ(a.step_median_s.median, 1.5);
    EXPECT_EQ(a.step_median_s.low, 1);
    EXPECT_EQ(a.tokens_per_s.high, 100);
    EXPECT_EQ(a.tokens_per_s.low, 50);
    EXPECT_EQ(a.causes[0].compute, 5);
    EXPECT_EQ(a.tokens_per_step, 100);
}

}  // namespace
}  // namespace ogrom
