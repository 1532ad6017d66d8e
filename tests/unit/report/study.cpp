#include "src/report/study.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/report/document.h"
#include "src/report/study_page.h"
#include "src/report/study_tables.h"

#include "tests/unit/report/points.h"

namespace ogrom {
namespace {

using test::study_point;
constexpr auto weak = StudyKind::weak;
constexpr auto strong = StudyKind::strong;

Study join_of(const std::vector<StudyPoint>& points) {
    std::vector<SourcedPoint> sourced;
    sourced.reserve(points.size());
    for (const StudyPoint& p : points) {
        sourced.push_back({p, "file" + std::to_string(sourced.size())});
    }
    return join_points(sourced);
}

double cell(const Table& table, std::size_t row, const std::string& key) {
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
        if (table.columns[i].key == key) {
            const Cell& found = table.rows.at(row).at(i);
            if (const auto* const count = std::get_if<i64>(&found)) {
                return static_cast<double>(*count);
            }
            const auto* const value = std::get_if<double>(&found);
            return value == nullptr ? std::nan("") : *value;
        }
    }
    ADD_FAILURE() << "no column " << key;
    return 0;
}

// B58: hand-computed. 2 ranks at 180, 4 at 320 tokens/s (lowest repeat; the highest is 1.1 times it) against 1 at 100.
TEST(Study, EfficiencyIsThroughputPerRankAgainstTheSmallestRun) {
    for (const StudyKind kind : {weak, strong}) {
        const Study study = join_of(
            {study_point(kind, "dp", 4, 320), study_point(kind, "dp", 1, 100), study_point(kind, "dp", 2, 180)});
        ASSERT_EQ(study.groups.size(), 1U);
        ASSERT_EQ(study.groups[0].series.size(), 1U);
        const Series& series = study.groups[0].series[0];
        EXPECT_EQ(series.base_ranks, 1);
        ASSERT_EQ(series.points.size(), 3U);
        const Efficiency base = series.points[0].efficiency, two = series.points[1].efficiency,
                         four = series.points[2].efficiency;
        EXPECT_DOUBLE_EQ(base.value, 1);
        EXPECT_DOUBLE_EQ(base.low, 1);
        EXPECT_DOUBLE_EQ(base.high, 1);
        EXPECT_NEAR(two.value, 0.9, 1e-12);
        EXPECT_NEAR(two.low, 180 / 110.0 / 2, 1e-12);   // worst here against best there
        EXPECT_NEAR(two.high, 198 / 100.0 / 2, 1e-12);  // and the reverse
        EXPECT_NEAR(four.value, 0.8, 1e-12);
        EXPECT_EQ(four.base_ranks, 1);
        const Table table = throughput_table(study.groups[0], kind, "");
        EXPECT_NEAR(cell(table, 2, "efficiency_percent"), 80, 1e-9);
        EXPECT_EQ(cell(table, 2, "base_ranks"), 1);
        EXPECT_EQ(cell(table, 2, "repeats"), 2);
        EXPECT_NEAR(cell(table, 2, "tokens_per_s_per_rank"), 84, 1e-9);
        EXPECT_NEAR(cell(table, 1, "tokens_per_rank_per_step"), kind == weak ? 40 : 80, 1e-9);
    }
}

TEST(Study, AnOversubscribedPointHasNoEfficiencyAndIsNoBase) {
    StudyPoint crowded = study_point(weak, "dp", 4, 120), one = study_point(weak, "dp", 1, 100);
    crowded.oversubscribed = true;
    Study study = join_of({one, crowded});
    EXPECT_EQ(study.groups[0].series[0].points[1].efficiency.base_ranks, 0);
    const Table table = throughput_table(study.groups[0], weak, "");
    EXPECT_TRUE(std::isnan(cell(table, 1, "efficiency_percent")));
    EXPECT_EQ(std::get<std::string>(table.rows[1].back()), "oversubscribed");
    EXPECT_EQ(curve_figure(study.groups[0], weak, CurveOf::throughput, "").lines.at(0).points.size(), 1U);
    EXPECT_TRUE(curve_figure(study.groups[0], weak, CurveOf::efficiency, "").lines.empty());

    one.oversubscribed = true;
    study = join_of({one, crowded});
    EXPECT_EQ(study.groups[0].series[0].base_ranks, 0);
    EXPECT_TRUE(curve_figure(study.groups[0], weak, CurveOf::throughput, "").lines.empty());
    EXPECT_TRUE(cause_figure(study.groups[0], weak, "").groups.empty());
    EXPECT_TRUE(overview_table(study).rows.empty());
}

TEST(Study, WeakStrongLayoutsAndAmountsOfWorkAreCurvesOfTheirOwn) {
    StudyPoint other_batch = study_point(strong, "dp", 2, 150);
    other_batch.global_batch = 32;
    const Study study = join_of({study_point(weak, "dp", 1, 100), study_point(strong, "dp", 1, 100), other_batch,
                                 study_point(strong, "tp", 1, 90)});
    ASSERT_EQ(study.groups.size(), 1U);
    std::vector<std::string> labels;
    for (const Series& series : study.groups[0].series) {
        labels.push_back(std::string(name_of(series.kind)) + " " + series.label);
    }
    const std::vector<std::string> wanted = {"weak dp", "strong dp (global batch 16)", "strong dp (global batch 32)",
                                             "strong tp"};
    EXPECT_EQ(labels, wanted);
    EXPECT_EQ(study.groups[0].series[2].base_ranks, 2);  // not against a smaller run of less work
}

TEST(Study, ModelsAreSectionsAndStandBesideEachOtherBySize) {
    StudyPoint larger = study_point(weak, "dp", 2, 20);
    larger.model = "large";
    larger.parameters = 9'000'000;
    const Study study = join_of({larger, study_point(weak, "dp", 2, 100)});
    ASSERT_EQ(study.groups.size(), 2U);
    EXPECT_EQ(study.groups[0].sample.model, "tiny");
    const Table sizes = sizes_table(study);
    ASSERT_EQ(sizes.rows.size(), 2U);
    EXPECT_NEAR(cell(sizes, 1, "model_tflops"), 21.0 * 6e6 / 2 / 1e12, 1e-18);
    EXPECT_EQ(size_figure(study).lines.at(0).points.size(), 2U);
    EXPECT_TRUE(sizes_table(join_of({study_point(weak, "dp", 2, 100)})).rows.empty());
}

TEST(Study, TheSamePointTwiceIsOneAndTwoDifferentOnesAreRefusedByName) {
    const StudyPoint one = study_point(weak, "dp", 1, 100);
    const Study study = join_of({one, one});
    EXPECT_EQ(study.points, 1);
    EXPECT_EQ(study.notes.size(), 1U);
    StudyPoint again = study_point(weak, "dp", 1, 101);
    try {
        join_of({one, again});
        FAIL() << "taken";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_NE(std::string(error.what()).find("file0 and file1 both measure \"dp\" on 1 ranks (weak)"),
                  std::string::npos)
            << error.what();
    }
    again.study = "other";  // two studies may measure the same: two curves, each with its name
    const Study both = join_of({one, again});
    ASSERT_EQ(both.groups[0].series.size(), 2U);
    EXPECT_EQ(both.groups[0].series[0].label, "dp [s]");
    EXPECT_EQ(both.groups[0].series[1].label, "dp [other]");
}

TEST(Study, ARefusedPointIsToldWithItsReasonBesideItsStudy) {
    StudyPoint refused = study_point(strong, "tp", 3, 1);
    refused.refused = "4 heads do not divide by 3";
    refused.parameters = 0;
    refused.hidden = 0;
    refused.global_batch = 0;
    const Study study = join_of({study_point(strong, "tp", 1, 100), refused});
    ASSERT_EQ(study.groups.size(), 1U);
    ASSERT_EQ(study.groups[0].series.size(), 1U);
    const Table table = refused_table(study.groups[0], "");
    ASSERT_EQ(table.rows.size(), 1U);
    EXPECT_EQ(std::get<std::string>(table.rows[0].back()), refused.refused);
    EXPECT_EQ(throughput_table(study.groups[0], strong, "").rows.size(), 1U);
    EXPECT_EQ(points_table(study).rows.size(), 2U);
}

TEST(Study, CausesSumToTheStepInEveryRow) {
    const Study study = join_of({study_point(weak, "dp", 1, 100), study_point(weak, "dp", 4, 300)});
    const Table table = causes_table(study.groups[0], "");
    ASSERT_EQ(table.rows.size(), 3U);  // one rank; the mean and the slowest of four
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
        double sum = 0;
        for (const char* key : {"compute_ms", "tensor_comm_ms", "data_comm_ms", "pipeline_comm_ms", "bubble_ms",
                                "optimizer_ms", "offload_ms", "data_wait_ms", "other_ms"}) {
            sum += cell(table, row, key);
        }
        EXPECT_NEAR(sum, cell(table, row, "step_ms"), 1e-9 * sum);
        EXPECT_NEAR(cell(table, row, "other_percent"), 1, 1e-9);
    }
    EXPECT_EQ(std::get<std::string>(table.rows[2][3]), "slowest: 3");  // who communicates least works longest
    // 10 % x (4 + 3 + 2 + 1) / 16 of the step, which lies between 6.2 and 6.3
    EXPECT_TRUE(largest_loss(study.groups[0].series[0].points[1].point).starts_with("data comm., 6."));
}

TEST(Study, BothFlopConventionsStandAgainstTheMeasuredMatrixRate) {
    const Study study = join_of({study_point(weak, "dp", 2, 1000)});
    const Table table = flops_table(study.groups[0], "");
    EXPECT_NEAR(cell(table, 0, "model_tflops"), 1050 * 6e6 / 2 / 1e12, 1e-15);
    EXPECT_NEAR(cell(table, 0, "model_square_tflops"), 1050 * 7e6 / 2 / 1e12, 1e-15);
    EXPECT_NEAR(cell(table, 0, "hardware_tflops"), 1050 * 8e6 / 2 / 1e12, 1e-15);
    EXPECT_NEAR(cell(table, 0, "of_matrix_rate_percent"), 100 * 1050 * 6e6 / 2 / 1e11, 1e-9);
}

TEST(Study, WhatDiffersBetweenPointsIsSaid) {
    StudyPoint other = study_point(weak, "dp", 2, 100);
    other.commit = "d";
    other.threads_per_rank = 2;
    other.matmul_rate = 2e11;
    const Study study = join_of({study_point(weak, "dp", 1, 100), other});
    const std::vector<std::string>& notes = study.groups[0].notes;
    const auto told = [&](const std::string& part) {
        return std::any_of(notes.begin(), notes.end(),
                           [&](const std::string& note) { return note.find(part) != std::string::npos; });
    };
    EXPECT_TRUE(told("commit of the program differs between points: c, d"));
    EXPECT_TRUE(told("threads per rank differs between points: 1, 2"));
    EXPECT_TRUE(told("matrix rate of a rank differs"));
    EXPECT_TRUE(join_of({study_point(weak, "dp", 1, 100)}).groups[0].notes.empty());
}

// Names from files stand in the page as text alone.
TEST(Study, HostileNamesDoNotBecomeMarkup) {
    StudyPoint p = study_point(weak, "<script>alert('1')</script>", 1, 100);
    p.model = "\"><img src=x onerror=alert(1)>";
    p.machine = p.host = p.commit = p.command = p.run_file = p.recompute = p.study = "</pre></details><script>";
    p.versions = {{"<b>", "<i>"}};
    p.ledger = {{"<u>", "<s>", 1}};
    p.traffic = {{"<q>", 1}};
    const std::string html = document_html(study_document(join_of({p})));
    for (const char* tag : {"<script", "<img", "<b>", "<i>", "<u>", "<s>", "<q>"}) {
        EXPECT_EQ(html.find(tag), std::string::npos) << tag;
    }
    EXPECT_NE(html.find("&lt;script&gt;alert(&#39;1&#39;)"), std::string::npos);
}

}  // namespace
}  // namespace ogrom
