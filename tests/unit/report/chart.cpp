#include "src/report/chart.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

#include "src/base/file.h"

namespace ogrom {
namespace {

struct Folder {
    Folder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "ogrom chart-XXXXXX").string();
        path = ::mkdtemp(pattern.data());
    }
    ~Folder() {
        std::error_code error;
        std::filesystem::remove_all(path, error);
    }
    std::string path;
};

std::vector<StepMetrics> rows(i64 count, i64 eval_every) {
    std::vector<StepMetrics> made;
    for (i64 step = 1; step <= count; ++step) {
        StepMetrics row;
        row.step = step;
        row.loss = 2 + std::exp(-static_cast<double>(step) / 20);
        row.lr = 1e-3;
        if (eval_every > 0 && step % eval_every == 0) {
            row.valid_loss = row.loss + 0.1;
        }
        made.push_back(row);
    }
    return made;
}

bool has_gnuplot() {
    return std::system("gnuplot --version > /dev/null 2>&1") == 0;
}

TEST(LossChart, IsDrawnWithItsSeriesAndAxes) {
    if (!has_gnuplot()) {
        GTEST_SKIP() << "gnuplot is not installed";
    }
    const Folder folder;
    std::string reason;
    const auto path = draw_loss_chart(folder.path, "demo", rows(60, 10), reason);
    ASSERT_TRUE(path.has_value()) << reason;
    const std::string svg = read_file(*path, 10 << 20);
    for (const char* text : {"<svg", "training loss", "validation loss", "optimizer step", "learning rate",
                             "loss (nat per token)", "demo"}) {
        EXPECT_NE(svg.find(text), std::string::npos) << text;
    }
    EXPECT_EQ(list_directory(folder.path), std::vector<std::string>{"loss.svg"});  // nothing else is left
    // One step, and a loss that is not finite in places.
    std::vector<StepMetrics> odd = rows(3, 0);
    odd[1].loss = NAN;
    EXPECT_TRUE(draw_loss_chart(folder.path, "", odd, reason).has_value()) << reason;
    EXPECT_TRUE(draw_loss_chart(folder.path, "", rows(1, 1), reason).has_value()) << reason;
    EXPECT_EQ(read_file(folder.path + "/loss.svg", 10 << 20).find("nan"), std::string::npos);
}

// A title is text, whatever it holds: no shell, no gnuplot command, no back-quote substitution.
TEST(LossChart, ATitleCannotBecomeACommand) {
    const std::string script = loss_chart_script("a'b`touch x`\nsystem('touch y')", false);
    EXPECT_NE(script.find("set title 'a\u2019b`touch x` system(\u2019touch y\u2019)' noenhanced\n"), std::string::npos)
        << script;
    if (!has_gnuplot()) {
        GTEST_SKIP() << "gnuplot is not installed";
    }
    const Folder folder;
    std::string reason;
    ASSERT_TRUE(draw_loss_chart(folder.path, "'`touch x`; system('touch y')", rows(5, 0), reason)) << reason;
    EXPECT_EQ(list_directory(folder.path), std::vector<std::string>{"loss.svg"});
}

TEST(LossChart, GoesWithoutAndSaysWhy) {
    const Folder folder;
    std::string reason;
    std::vector<StepMetrics> none = rows(2, 0);
    none[0].loss = none[1].loss = INFINITY;
    EXPECT_FALSE(draw_loss_chart(folder.path, "x", none, reason).has_value());
    EXPECT_EQ(reason, "no finite loss to draw");
    const std::string path = std::getenv("PATH") == nullptr ? "" : std::getenv("PATH");
    ::setenv("PATH", folder.path.c_str(), 1);
    EXPECT_FALSE(draw_loss_chart(folder.path, "x", rows(2, 0), reason).has_value());
    ::setenv("PATH", path.c_str(), 1);
    EXPECT_NE(reason.find("gnuplot is not installed"), std::string::npos) << reason;
    EXPECT_TRUE(list_directory(folder.path).empty());
}

}  // namespace
}  // namespace ogrom
