#include "src/io/metrics.h"

#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/base/file.h"
#include "src/io/hdf5.h"
#include "src/io/io_thread.h"
#include "src/io/metrics_csv.h"
#include "src/io/metrics_h5.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;

// Every field has a value of its own, none of them short in decimal.
StepMetrics row_of(i64 step) {
    StepMetrics row;
    row.step = step;
    double next = 1.0 / 3.0 + static_cast<double>(step);
    for (const MetricsColumn& column : metrics_columns()) {
        if (column.kind == MetricsColumn::Kind::real) {
            row.*column.real = next *= 1.1;
        } else if (column.kind == MetricsColumn::Kind::integer && std::string(column.name) != "step") {
            row.*column.integer = (i64{1} << 40) + static_cast<i64>(next *= 1.1);
        }
    }
    row.skipped = step % 2 == 0;
    if (step % 3 == 0) {
        row.valid_loss = next;
    }
    return row;
}

std::vector<i64> steps_of(const std::vector<StepMetrics>& rows) {
    std::vector<i64> steps;
    for (const StepMetrics& row : rows) {
        steps.push_back(row.step);
    }
    return steps;
}

TEST(MetricsCsv, RowsComeBackToTheBit) {
    const Folder folder;
    Metrics metrics(folder.path(), 0);
    for (i64 step = 1; step <= 6; ++step) {
        metrics.row(row_of(step));
    }
    const std::vector<StepMetrics> rows = metrics.read();
    ASSERT_EQ(rows.size(), 6u);
    for (const StepMetrics& row : rows) {
        EXPECT_EQ(metrics_line(row), metrics_line(row_of(row.step)));
        EXPECT_EQ(row.loss, row_of(row.step).loss);
        EXPECT_EQ(row.memory_bytes, row_of(row.step).memory_bytes);
        EXPECT_EQ(row.skipped, row.step % 2 == 0);
        EXPECT_EQ(row.valid_loss.has_value(), row.step % 3 == 0);
    }
    StepMetrics odd;
    odd.loss = NAN;
    odd.gradient_norm = INFINITY;
    metrics.row(odd);
    EXPECT_TRUE(std::isnan(metrics.read().back().loss));
    EXPECT_TRUE(std::isinf(metrics.read().back().gradient_norm));
}

TEST(MetricsH5, APublicationHoldsTheRowsOfItsStepThoughOthersFollow) {
    const Folder folder;
    Metrics metrics(folder.path(), 0);
    for (i64 step = 1; step <= 3; ++step) {
        metrics.row(row_of(step));
    }
    const auto task = metrics.publication(3);
    metrics.row(row_of(4));
    on_io_thread(task);
    std::vector<StepMetrics> rows;
    on_io_thread([&] { rows = read_metrics_h5(folder.path("metrics.h5")); });
    EXPECT_EQ(steps_of(rows), (std::vector<i64>{1, 2, 3}));
    EXPECT_EQ(steps_of(metrics.read()), (std::vector<i64>{1, 2, 3, 4}));
}

TEST(MetricsCsv, ResumeCutsWhatCameAfterTheCheckpoint) {
    const Folder folder;
    {
        Metrics metrics(folder.path(), 0);
        for (i64 step = 1; step <= 5; ++step) {
            metrics.row(row_of(step));
        }
    }
    {
        Metrics metrics(folder.path(), 3);
        EXPECT_EQ(steps_of(metrics.read()), (std::vector<i64>{1, 2, 3}));
        metrics.row(row_of(4));
        EXPECT_EQ(steps_of(metrics.read()), (std::vector<i64>{1, 2, 3, 4}));
    }
    EXPECT_EQ(Metrics(folder.path(), 0).read().size(), 0u);  // a fresh run starts anew
}

// What a kill within a rewrite left goes with the next run; other people's files stay.
TEST(MetricsCsv, HalfWrittenFilesOfAKilledRunGo) {
    const Folder folder;
    for (const char* name : {"metrics.csv.host-17.tmp", "metrics.h5.host-18.tmp", "metrics.h5.19.tmp", "metrics.h5.tmp",
                             "metrics.h5.host-x.tmp", "notes.csv.host-17.tmp"}) {
        write_file_atomic(folder.path(name), "half");
    }
    const Metrics metrics(folder.path(), 0);
    EXPECT_EQ(list_directory(folder.path()), (std::vector<std::string>{"metrics.csv", "metrics.h5.host-x.tmp",
                                                                       "metrics.h5.tmp", "notes.csv.host-17.tmp"}));
}

TEST(MetricsCsv, ATornLastLineIsCutAndNothingElse) {
    const Folder folder;
    const std::string path = folder.path("metrics.csv");
    {
        Metrics metrics(folder.path(), 0);
        metrics.row(row_of(1));
        metrics.row(row_of(2));
    }
    const std::string whole = read_file(path, 1 << 20), torn = metrics_line(row_of(3));
    for (std::size_t kept = 1; kept < torn.size(); ++kept) {
        std::ofstream(path) << whole << torn.substr(0, kept);
        ASSERT_EQ(steps_of(read_metrics_csv(path)), (std::vector<i64>{1, 2})) << kept;
    }
    Metrics metrics(folder.path(), 9);
    metrics.row(row_of(3));
    EXPECT_EQ(read_file(path, 1 << 20), whole + torn);
}

// Written before there was a loss scale: its column is not there, and the factor was 1.
TEST(MetricsCsv, AFileWithoutTheLossScaleIsRead) {
    const Folder folder;
    const std::string path = folder.path("metrics.csv"), column = ",loss_scale\n";
    std::string head = metrics_head(), line = metrics_line(row_of(3));
    ASSERT_TRUE(head.ends_with(column));
    head.resize(head.size() - column.size());
    line.resize(line.rfind(','));
    write_file_atomic(path, fmt::format("{}\n{}\n", head, line));
    const std::vector<StepMetrics> rows = read_metrics_csv(path);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].loss_scale, 1);
    EXPECT_EQ(rows[0].valid_loss, row_of(3).valid_loss);
    // A resumed run goes on with the columns of today.
    Metrics metrics(folder.path(), 3);
    metrics.row(row_of(4));
    EXPECT_EQ(read_metrics_csv(path)[1].loss_scale, row_of(4).loss_scale);
}

TEST(MetricsCsv, WhatIsNoRowIsNamedByFileAndLine) {
    const Folder folder;
    const std::string path = folder.path("metrics.csv");
    const auto fault = [&](const std::string& text) {
        write_file_atomic(path, text);
        return test::fault_text([&] { read_metrics_csv(path); });
    };
    const std::string good = metrics_line(row_of(1));
    EXPECT_NE(fault(metrics_head() + good + "1,2,3\n").find("metrics.csv:4: 3 columns"), std::string::npos);
    EXPECT_NE(fault(metrics_head() + "x" + good).find("metrics.csv:3: 'x1' is not a number for step"),
              std::string::npos);
    EXPECT_NE(fault("# ogrom metrics format=2\n" + good).find("metrics.csv:1: "), std::string::npos);
}

TEST(MetricsH5, EveryColumnIsADatasetOfOneValuePerStep) {
    const Folder folder;
    Metrics metrics(folder.path(), 0);
    metrics.publish();  // no rows yet: an empty, readable file
    for (i64 step = 1; step <= 6; ++step) {
        metrics.row(row_of(step));
        metrics.publish();
    }
    const std::string path = folder.path("metrics.h5");
    on_io_thread([&] {
        const h5::File file = h5::open_read(path);
        EXPECT_EQ(h5::get_i64(file.get(), "format", path), 1);
        for (const MetricsColumn& column : metrics_columns()) {
            const h5::Dataset dataset = h5::open_dataset(file.get(), std::string("/metrics/") + column.name, path);
            ASSERT_EQ(h5::shape(dataset.get(), path, column.name), std::vector<i64>{6});
            EXPECT_EQ(h5::get_string(dataset.get(), "unit", path), column.unit);
            std::vector<double> values(6, -1);
            ASSERT_GE(H5Dread(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
            for (i64 i = 0; i < 6; ++i) {
                const StepMetrics row = row_of(i + 1);
                const double found = values[static_cast<std::size_t>(i)];
                if (column.kind == MetricsColumn::Kind::real) {
                    EXPECT_EQ(found, row.*column.real);
                } else if (column.kind == MetricsColumn::Kind::integer) {
                    EXPECT_EQ(found, static_cast<double>(row.*column.integer));
                } else if (column.kind == MetricsColumn::Kind::flag) {
                    EXPECT_EQ(found, row.skipped ? 1 : 0);
                } else {
                    EXPECT_TRUE(row.valid_loss ? found == *row.valid_loss : std::isnan(found));
                }
            }
        }
    });
    EXPECT_EQ(list_directory(folder.path()), (std::vector<std::string>{"metrics.csv", "metrics.h5"}));
}

// A run that stops on a fault brings metrics.h5 up to date; a folder that is gone does not hide that fault.
TEST(MetricsH5, AStopPublishesAndNeverThrows) {
    const Folder folder;
    Metrics metrics(folder.path("run"), 0);
    metrics.publish();
    metrics.row(row_of(1));
    metrics.publish_at_stop();
    const std::string path = folder.path("run/metrics.h5");
    on_io_thread([&] {
        const h5::File file = h5::open_read(path);
        const h5::Dataset dataset = h5::open_dataset(file.get(), "/metrics/loss", path);
        EXPECT_EQ(h5::shape(dataset.get(), path, "loss"), std::vector<i64>{1});
    });
    std::filesystem::remove_all(folder.path("run"));
    metrics.publish_at_stop();
    EXPECT_FALSE(file_exists(path));
}

// Failure hooks run on whatever thread notices the fault.
TEST(Events, ThreadsWriteWholeLinesAndAMissingFolderIsNoFault) {
    const Folder folder;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 25; ++i) {
                EXPECT_TRUE(try_append_event(folder.path(), t, "host", i, "train", 6, std::string(3000, 'x')));
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    std::ifstream file(folder.path("events.jsonl"));
    i64 lines = 0, sum = 0;
    for (std::string line; std::getline(file, line); ++lines) {
        sum += nlohmann::json::parse(line).at("step").get<i64>();
    }
    EXPECT_EQ(lines, 100);
    EXPECT_EQ(sum, 4 * 25 * 24 / 2);
    EXPECT_FALSE(try_append_event(folder.path("nowhere"), 0, "host", 1, "train", 6, "lost"));
}

// A line without an end is ended by the next event where its writer is gone, and left alone while one is at it.
TEST(Events, ATornLineIsEndedOnlyWhenNobodyWritesIt) {
    const Folder folder;
    const std::string path = folder.path("events.jsonl");
    {
        FileWriter other(path, Create::append);
        ASSERT_TRUE(other.lock(0));
        other.write("{\"half");
        append_event(folder.path(), 0, "host", 1, "train", 0, "");
        EXPECT_TRUE(read_file(path, 1 << 20).starts_with("{\"half{\"format\":1"));
        other.write("{\"torn");
    }
    append_event(folder.path(), 0, "host", 2, "train", 0, "");
    const std::string text = read_file(path, 1 << 20);
    EXPECT_NE(text.find("{\"torn\n{\"format\":1"), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("}\n"));
}

TEST(Events, OneJsonLineEach) {
    const Folder folder;
    append_event(folder.path(), 3, "node \"a\"", 7, "save", 4, "line one\nline two \xff");
    append_event(folder.path(), 0, "b", 8, "train", 0, "");
    std::ifstream file(folder.path("events.jsonl"));
    std::string line;
    ASSERT_TRUE(std::getline(file, line));
    const auto event = nlohmann::json::parse(line);
    EXPECT_EQ(event.at("rank"), 3);
    EXPECT_EQ(event.at("host"), "node \"a\"");
    EXPECT_EQ(event.at("step"), 7);
    EXPECT_EQ(event.at("phase"), "save");
    EXPECT_EQ(event.at("code"), 4);
    EXPECT_EQ(event.at("text").get<std::string>().substr(0, 18), "line one\nline two ");
    EXPECT_TRUE(event.at("time").get<std::string>().ends_with("Z"));
    ASSERT_TRUE(std::getline(file, line));
    EXPECT_EQ(nlohmann::json::parse(line).at("step"), 8);
    EXPECT_FALSE(std::getline(file, line));
}

}  // namespace
}  // namespace ogrom
