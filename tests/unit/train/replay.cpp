// What counts as a difference between a recorded step and the same step made again.
#include "src/train/replay.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace ogrom {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

ReplayRow row() {
    return {5, 2.5, 1.25, 1e-3, false, 0xFEEDU};
}

double next(double value) {
    return std::nextafter(value, infinite);
}

TEST(Replay, EveryBitOfEveryQuantityCounts) {
    EXPECT_EQ(first_difference(row(), row(), {}), "");
    const std::vector<std::pair<std::string, void (*)(ReplayRow&)>> changes = {
        {"learning rate", [](ReplayRow& r) { r.lr = next(r.lr); }},
        {"skipped", [](ReplayRow& r) { r.skipped = true; }},
        {"loss", [](ReplayRow& r) { r.loss = next(r.loss); }},
        {"gradient norm", [](ReplayRow& r) { r.gradient_norm = next(r.gradient_norm); }},
        {"weight hash", [](ReplayRow& r) { r.weight_hash ^= 1; }}};
    for (auto first = changes.begin(); first != changes.end(); ++first) {
        ReplayRow other = row();
        for (auto change = first; change != changes.end(); ++change) {
            change->second(other);  // what comes later does not hide what comes first
        }
        EXPECT_EQ(first_difference(row(), other, {}), first->first);
    }
}

TEST(Replay, ABoundIsRelativeAndLeavesTheHashOut) {
    const ReplayBound bound{1e-5, 1e-4};
    ReplayRow other = row();
    other.weight_hash ^= 1;
    other.loss *= 1 + 0.9e-5;
    other.gradient_norm *= 1 - 0.9e-4;
    EXPECT_EQ(first_difference(row(), other, bound), "");
    other.gradient_norm = row().gradient_norm * (1 - 1.1e-4);
    EXPECT_EQ(first_difference(row(), other, bound), "gradient norm");
    other.loss = row().loss * (1 + 1.1e-5);
    EXPECT_EQ(first_difference(row(), other, bound), "loss");
    other = row();
    other.lr = next(other.lr);
    EXPECT_EQ(first_difference(row(), other, bound), "learning rate")
        << "a pure function of the step under every layout";
}

TEST(Replay, StepsThatWereNotFiniteAgreeWithEachOtherAlone) {
    ReplayRow skipped = row(), other = row();
    skipped.skipped = other.skipped = true;
    skipped.loss = other.loss = not_a_number;
    EXPECT_EQ(first_difference(skipped, other, {}), "");
    EXPECT_EQ(first_difference(skipped, other, ReplayBound{1e-5, 1e-5}), "");
    other.loss = infinite;
    EXPECT_EQ(first_difference(skipped, other, {}), "loss");
    EXPECT_EQ(first_difference(skipped, other, ReplayBound{1e-5, 1e-5}), "") << "which of them is a matter of order";
    other.loss = 2.5;
    EXPECT_EQ(first_difference(skipped, other, ReplayBound{1e-5, 1e-5}), "loss");
    EXPECT_EQ(first_difference(other, skipped, ReplayBound{1e-5, 1e-5}), "loss");
}

TEST(Replay, TheReportNamesTheFirstStepAndQuantity) {
    ReplayReport report{"x/step-00000004", 4, 3, 3, {}, {}, false};
    for (i64 step = 5; step <= 7; ++step) {
        ReplayStep made{row(), row(), {}, {}};
        made.recorded.step = made.replayed.step = step;
        made.replayed.weight_hash ^= step >= 6 ? 1 : 0;
        made.difference = first_difference(made.recorded, made.replayed, made.bound);
        report.steps.push_back(made);
    }
    EXPECT_EQ(report.code(), ExitCode::numerics);
    EXPECT_NE(report_text(report).find("DIFFERS: step 6, weight hash"), std::string::npos) << report_text(report);
    EXPECT_NE(report_json(report).find("\"quantity\": \"weight hash\""), std::string::npos);
    report.steps.resize(1);
    report.stopped = true;
    EXPECT_EQ(report.code(), ExitCode::saved_for_requeue);
    EXPECT_NE(report_text(report).find("stopped by a signal after 1 of 3 steps"), std::string::npos);
    report.stopped = false;
    EXPECT_EQ(report.code(), ExitCode::done);
}

TEST(Replay, BoundsAreThoseOfTheArithmetic) {
    for (const i64 step : {1, 3, 20}) {
        const ReplayBound fp64 = replay_bound("fp64", step), fp32 = replay_bound("fp32", step);
        EXPECT_EQ(fp64.loss, 1e-9);
        EXPECT_EQ(fp64.norm, 1e-9);
        EXPECT_EQ(fp32.loss, 1e-5);
        EXPECT_EQ(fp32.norm, 1e-5 * static_cast<double>(step));
        EXPECT_LT(replay_bound("fp16", step).loss, replay_bound("bf16", step).loss);
    }
}

}  // namespace
}  // namespace ogrom
