// A resume never throws the history of a run away: what metrics.csv has lost comes from metrics.h5.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "src/base/file.h"
#include "src/io/metrics.h"
#include "src/io/metrics_csv.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

namespace fs = std::filesystem;
using test::Folder;

StepMetrics row_of(i64 step) {
    StepMetrics row;
    row.step = step;
    row.loss = 1.0 / static_cast<double>(step + 2);
    row.lr = 0.1 / 3;
    row.tokens = 7 * step;
    row.bytes_sent = (i64{1} << 40) + step;
    row.skipped = step == 4;
    if (step % 3 == 0) {
        row.valid_loss = 2.0 / 3;
    }
    return row;
}

std::string text_of(i64 first, i64 last) {
    std::string text;
    for (i64 step = first; step <= last; ++step) {
        text += metrics_line(row_of(step));
    }
    return text;
}

class Restore : public ::testing::Test {
protected:
    // A run of 10 steps, published at step `published`.
    void run_to(i64 published) {
        Metrics metrics(folder_.path(), 0);
        for (i64 step = 1; step <= 10; ++step) {
            metrics.row(row_of(step));
            if (step == published) {
                metrics.publish();
            }
        }
    }
    [[nodiscard]] std::string resumed(i64 step) const {
        const Metrics metrics(folder_.path(), step);
        return read_file(csv_, 1 << 20);
    }
    void write(const std::string& text) const { std::ofstream(csv_) << text; }

    Folder folder_;
    std::string csv_ = folder_.path("metrics.csv"), h5_ = folder_.path("metrics.h5");
};

TEST_F(Restore, EveryRowOfAMissingEmptyOrCutCsv) {
    const std::string wanted = metrics_head() + text_of(1, 8), whole = metrics_head() + text_of(1, 10);
    run_to(8);
    fs::remove(csv_);
    EXPECT_EQ(resumed(8), wanted);
    write("");
    EXPECT_EQ(resumed(8), wanted);
    for (std::size_t kept = 0; kept < whole.size(); kept += 97) {
        write(whole.substr(0, kept));
        ASSERT_EQ(resumed(8), wanted) << kept;
    }
    EXPECT_EQ(list_directory(folder_.path()), (std::vector<std::string>{"metrics.csv", "metrics.h5"}))
        << "a cut file is no damaged one";
}

TEST_F(Restore, TheCsvGivesWhatMetricsH5HasNot) {
    run_to(3);
    EXPECT_EQ(resumed(8), metrics_head() + text_of(1, 8));
    fs::remove(h5_);
    EXPECT_EQ(resumed(7), metrics_head() + text_of(1, 7));
    std::ofstream(h5_) << "no HDF5";
    write(metrics_head() + text_of(1, 2));
    EXPECT_EQ(resumed(7), metrics_head() + text_of(1, 2)) << "lost in both, and the resume goes on";
}

TEST_F(Restore, ADamagedRowIsReplacedAndTheDamagedFileKept) {
    run_to(8);
    const std::string damaged = metrics_head() + text_of(1, 3) + "4,rubbish\n" + text_of(5, 10);
    write(damaged);
    EXPECT_EQ(resumed(8), metrics_head() + text_of(1, 8));
    EXPECT_EQ(read_file(csv_ + ".damaged", 1 << 20), damaged);
    const std::string headless = "not a header\n" + text_of(1, 10);
    write(headless);
    EXPECT_EQ(resumed(6), metrics_head() + text_of(1, 6));
    EXPECT_EQ(read_file(csv_ + ".damaged-2", 1 << 20), headless);
    EXPECT_EQ(read_file(csv_ + ".damaged", 1 << 20), damaged);
}

// The CSV is written row by row and the newer of the two: after a resume from an earlier step they may differ.
TEST_F(Restore, WhereBothHaveAStepTheCsvIsBelieved) {
    run_to(10);
    StepMetrics newer = row_of(2);
    newer.loss = 99;
    write(metrics_head() + metrics_line(row_of(1)) + metrics_line(newer));
    EXPECT_EQ(resumed(3), metrics_head() + metrics_line(row_of(1)) + metrics_line(newer) + metrics_line(row_of(3)));
}

TEST_F(Restore, AFreshStartTakesNothingOver) {
    run_to(10);
    EXPECT_EQ(resumed(0), metrics_head());
}

}  // namespace
}  // namespace ogrom
