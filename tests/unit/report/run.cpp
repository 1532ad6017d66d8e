#include "src/report/run.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/io/metrics_csv.h"
#include "src/report/sources.h"

#include "tests/unit/report/points.h"

namespace ogrom {
namespace {

using test::Folder;

StepMetrics row(i64 step, double loss, double step_s) {
    StepMetrics m;
    m.step = step;
    m.loss = loss;
    m.gradient_norm = 1;
    m.lr = 1e-3;
    m.tokens = 100;
    m.step_s = step_s;
    m.tokens_per_s = 100 / step_s;
    m.memory_bytes = i64{1} << 20;
    return m;
}

void write_run(const std::string& folder, const std::vector<StepMetrics>& rows) {
    std::string csv = metrics_head();
    for (const StepMetrics& each : rows) {
        csv += metrics_line(each);
    }
    write_file_atomic(join_path(folder, "metrics.csv"), csv);
}

const Table* table_of(const Document& document, const std::string& id) {
    for (const Table* table : document.tables()) {
        if (table->id == id) {
            return table;
        }
    }
    return nullptr;
}

TEST(RunReport, StepsAreThinnedToMeansOfWhatIsFinite) {
    std::vector<StepMetrics> rows;
    for (i64 step = 1; step <= 10; ++step) {
        rows.push_back(row(step, static_cast<double>(step), 0.1));
    }
    rows[1].loss = std::nan("");
    const Thinned thin = thinned(rows, 4);
    EXPECT_EQ(thin.steps_each, 3);
    ASSERT_EQ(thin.rows.size(), 4U);
    EXPECT_DOUBLE_EQ(thin.rows[0].loss, 2);  // of 1 and 3
    EXPECT_DOUBLE_EQ(thin.rows[1].loss, 5);
    EXPECT_EQ(thin.rows[1].step, 6);
    EXPECT_DOUBLE_EQ(thin.rows[3].loss, 10);
    EXPECT_EQ(thinned(rows, 100).rows.size(), 10U);
}

TEST(RunReport, AHistogramCountsEveryStepButTheFirst) {
    std::vector<StepMetrics> rows = {row(1, 1, 9)};
    for (i64 step = 2; step <= 101; ++step) {
        rows.push_back(row(step, 1, 0.1 + 0.001 * static_cast<double>(step % 10)));
    }
    rows.push_back(row(102, 1, 50));
    const HistogramFigure figure = step_histogram(rows);
    ASSERT_EQ(figure.edges.size(), figure.counts.size() + 1);
    EXPECT_EQ(std::accumulate(figure.counts.begin(), figure.counts.end(), i64{0}), 101);
    EXPECT_LT(figure.edges.back(), 1000);  // one step of 50 s does not flatten the rest
    EXPECT_NE(figure.note.find("1 steps took longer"), std::string::npos) << figure.note;
    EXPECT_TRUE(step_histogram({row(1, 1, 1)}).counts.empty());
    const HistogramFigure same = step_histogram({row(1, 1, 1), row(2, 1, 0.5), row(3, 1, 0.5)});
    EXPECT_EQ(std::accumulate(same.counts.begin(), same.counts.end(), i64{0}), 2);
}

TEST(RunReport, TheSlowestRankComesFirst) {
    Folder folder;
    write_run(folder.path, {row(1, 3, 1), row(2, 2, 0.5), row(3, 1.5, 0.6)});
    write_rank_times(folder.path, {{0, "a", 2, 3, 0.55, 0.2, 0.01, 0.4, 2}, {1, "b,c", 2, 3, 0.55, 0.05, 0, 0.6, 3}});
    const RunRecord run = read_run(folder.path);
    const Document document = run_document(run);
    const Table* const ranks = table_of(document, "ranks");
    ASSERT_NE(ranks, nullptr);
    EXPECT_EQ(std::get<i64>(ranks->rows[0][0]), 1);
    EXPECT_EQ(std::get<std::string>(ranks->rows[0][1]), "b_c");
    EXPECT_DOUBLE_EQ(std::get<double>(ranks->rows[0][2]), 500);
    const Table* const longest = table_of(document, "longest-steps");
    ASSERT_NE(longest, nullptr);
    EXPECT_EQ(std::get<i64>(longest->rows[0][0]), 3);  // the first step is not among them
    EXPECT_EQ(longest->rows.size(), 2U);
}

TEST(RunReport, WhatIsMissingOrDamagedIsANote) {
    Folder folder;
    write_run(folder.path, {row(1, 3, 1)});
    write_file_atomic(join_path(folder.path, "events.jsonl"),
                      "{\"time\":\"t\",\"rank\":1,\"step\":2,\"phase\":\"save\",\"code\":0,\"text\":\"x\"}\n{\"tim");
    write_file_atomic(join_path(folder.path, rank_times_name), "# ogrom ranks format=9\n");
    const RunRecord run = read_run(folder.path);
    ASSERT_EQ(run.events.size(), 1U);
    EXPECT_EQ(run.events[0].phase, "save");
    ASSERT_EQ(run.notes.size(), 4U);
    EXPECT_NE(run.notes[0].find("ranks.csv:1: \"# ogrom ranks format=9\""), std::string::npos) << run.notes[0];
    EXPECT_NE(run.notes[1].find("1 lines are no events"), std::string::npos);
    EXPECT_NE(run.notes[2].find("provenance.json is not there"), std::string::npos);
    EXPECT_FALSE(document_html(run_document(run)).empty());  // one step alone

    write_run(folder.path, {});
    EXPECT_THROW(read_run(folder.path), Error);
}

TEST(RunReport, TimesByRankReadBackAndOthersAreRefusedWithTheirLine) {
    RankTimes times{7, "h", 2, 9, 0.5, std::numeric_limits<double>::quiet_NaN(), 0.25, 0.125, 4};
    const RankTimes back = parse_rank_line("7,h,2,9,0.5,,0.25,0.125,4", "f:3");
    EXPECT_EQ(rank_times_line(times), "7,h,2,9,0.5,,0.25,0.125,4\n");
    EXPECT_EQ(back.rank, 7);
    EXPECT_TRUE(std::isnan(back.waited_s));
    EXPECT_EQ(back.longest_step, 4);
    for (const char* line : {"", "1,h,2,9,0.5,,0.25,0.125", "1,h,2,9,x,,0.25,0.125,4", "-1,h,2,9,0.5,,0.25,0.125,4",
                             "1,h,2,9,0.5,inf,0.25,0.125,4"}) {
        try {
            parse_rank_line(line, "f:3");
            ADD_FAILURE() << line;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::data);
            EXPECT_TRUE(std::string(error.what()).starts_with("f:3: ")) << error.what();
        }
    }
}

TEST(Sources, RunsStudiesAndPointsAreToldApartByContent) {
    Folder folder;
    const std::string run = join_path(folder.path, "run"), study = join_path(folder.path, "all/a"),
                      other = join_path(folder.path, "all/b"), empty = join_path(folder.path, "empty");
    make_directories(run);
    make_directories(empty);
    write_run(run, {row(1, 1, 1)});
    const StudyPoint one = test::study_point(StudyKind::weak, "dp", 1, 100),
                     two = test::study_point(StudyKind::weak, "dp", 2, 180);
    write_study_point(study, one);
    write_study_point(other, two);
    EXPECT_EQ(find_sources({run + "/"}).run_folder, run);
    EXPECT_EQ(find_sources({join_path(run, "metrics.csv")}).default_output, join_path(run, "report"));
    EXPECT_EQ(find_sources({study}).default_output, join_path(study, "report"));
    EXPECT_EQ(find_sources({study, other}).points.size(), 2U);
    EXPECT_EQ(find_sources({study, other}).default_output, join_path(folder.path, "all/report"));
    EXPECT_EQ(find_sources({join_path(folder.path, "all")}).points.size(), 2U);
    EXPECT_EQ(find_sources({study, study_point_path(study, one.id), study + "/../a"}).points.size(), 1U);
    EXPECT_EQ(find_sources({study_point_path(study, one.id)}).default_output, join_path(study, "report"));

    const auto refused = [](const std::vector<std::string>& paths, ExitCode code, const std::string& part) {
        try {
            find_sources(paths);
            ADD_FAILURE() << part;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), code);
            EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
        }
    };
    refused({run, study}, ExitCode::usage, "is a run, " + study_point_path(study, one.id));
    EXPECT_EQ(find_sources({run, run}).run_folder, run);
    const std::string second = join_path(folder.path, "second");
    make_directories(second);
    write_run(second, {row(1, 1, 1)});
    refused({run, second}, ExitCode::usage, "are two runs");
    refused({empty}, ExitCode::usage, "neither a study nor a run");
    refused({join_path(folder.path, "none")}, ExitCode::checkpoint, "does not exist");
    refused({""}, ExitCode::usage, "empty path");
    refused({"/dev/null"}, ExitCode::usage, "a pipe, socket or device");
    make_directories(join_path(empty, "points"));
    refused({empty}, ExitCode::usage, "no point is there yet");
    write_file_atomic(join_path(empty, "points/x.json"), "{}");
    refused({empty}, ExitCode::data, join_path(empty, "points/x.json"));
    write_file_atomic(join_path(empty, "y.txt"), "{}");
    refused({join_path(empty, "y.txt")}, ExitCode::usage, "no file that report knows");
}

}  // namespace
}  // namespace ogrom
