// Handle, timer, version and progress.
#include <gtest/gtest.h>
#include <regex>
#include <thread>

#include "src/base/handle.h"
#include "src/base/host.h"
#include "src/base/progress.h"
#include "src/base/timer.h"
#include "src/base/version.h"

namespace ogrom {
namespace {

int destroyed[8] = {};

struct CountedTraits {
    using type = int;
    static constexpr int empty = -1;
    static void destroy(int value) noexcept { ++destroyed[value]; }
};
using Counted = Handle<CountedTraits>;

TEST(Host, ReadsTheVersionOfTheGpuDriver) {
    EXPECT_EQ(gpu_driver_in("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024"),
              "535.183.01");
    EXPECT_EQ(gpu_driver_in("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build"),
              "580.65.06");
    EXPECT_EQ(gpu_driver_in(""), "");
    EXPECT_EQ(gpu_driver_in("no version here"), "");
}

TEST(Handle, MovesAndDestroysExactlyOnce) {
    {
        Counted first(1);
        Counted second(std::move(first));
        EXPECT_FALSE(static_cast<bool>(first));  // NOLINT: a moved-from handle is empty by contract
        EXPECT_EQ(second.get(), 1);
        Counted third(2);
        third = std::move(second);
        EXPECT_EQ(destroyed[2], 1);
        EXPECT_EQ(third.get(), 1);
        Counted& self = third;
        third = std::move(self);
        EXPECT_EQ(third.get(), 1);
        third.reset(3);
        EXPECT_EQ(destroyed[1], 1);
        Counted fourth(4);
        EXPECT_EQ(fourth.release(), 4);
    }
    EXPECT_EQ(destroyed[1], 1);
    EXPECT_EQ(destroyed[2], 1);
    EXPECT_EQ(destroyed[3], 1);
    EXPECT_EQ(destroyed[4], 0);
}

TEST(Timer, RunsForwardAndRestarts) {
    Timer timer;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const double elapsed = timer.seconds();
    EXPECT_GE(elapsed, 0.005);
    timer.restart();
    EXPECT_LT(timer.seconds(), elapsed);
    EXPECT_TRUE(std::regex_match(utc_time(), std::regex(R"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"))) << utc_time();
}

TEST(Version, NamesTheBuild) {
    const BuildInfo& info = build_info();
    EXPECT_TRUE(std::regex_match(info.program, std::regex(R"(\d+\.\d+\.\d+)"))) << info.program;
    EXPECT_TRUE(std::regex_match(info.git, std::regex(R"(unknown|[0-9a-f]{40}(-dirty)?)"))) << info.git;
    EXPECT_NE(info.flags.find("-march=" + info.march), std::string::npos) << info.flags;
    EXPECT_FALSE(info.compiler.empty());
    EXPECT_TRUE(version_text().starts_with("ogrom " + info.program + "\ncommit " + info.git)) << version_text();
    for (const auto& [name, version] : base_library_versions()) {
        EXPECT_FALSE(name.empty());
        EXPECT_NE(version.find_first_of("0123456789"), std::string::npos) << name << " " << version;
    }
}

// What a progress object wrote to a temporary file.
template <class Call>
std::string written(ProgressStyle style, double interval, i64 total, Call call) {
    std::FILE* out = std::tmpfile();
    {
        Progress progress("pack", total, "docs", {style, out, interval, interval});
        call(progress);
    }
    std::string text;
    std::rewind(out);
    for (int c = std::fgetc(out); c != EOF; c = std::fgetc(out)) {
        text += static_cast<char>(c);
    }
    std::fclose(out);
    return text;
}

TEST(Progress, LineHasPercentCountAndRemainingTime) {
    const Progress progress("pack", 3000, "docs", {ProgressStyle::lines, stderr, 0, 0});
    EXPECT_EQ(progress.text(1500, 60, "loss 3.2"), "pack  50 %  1_500/3_000 docs  1:00 left  loss 3.2");
    EXPECT_EQ(progress.text(0, 60, ""), "pack   0 %  0/3_000 docs  --:-- left");
    EXPECT_EQ(progress.text(4000, 60, ""), "pack 100 %  4_000/3_000 docs  0:00 left");
    const Progress endless("read", 0, "bytes", {ProgressStyle::lines, stderr, 0, 0});
    EXPECT_EQ(endless.text(12, 61, ""), "read  12 bytes  1:01");
}

TEST(Progress, ResumedCountDoesNotShortenTheRemainingTime) {
    Progress progress("train", 100, "steps", {ProgressStyle::silent, stderr, 0, 0});
    progress.update(50);
    // 25 steps in 10 s since the start at 50: 25 more take 10 s.
    EXPECT_EQ(progress.text(75, 10, ""), "train  75 %  75/100 steps  0:10 left");
}

TEST(Progress, PlainLinesComeAtTheIntervalAndAtTheEnd) {
    const std::string text = written(ProgressStyle::lines, 1000, 10, [](Progress& progress) {
        for (i64 i = 0; i <= 10; ++i) {
            progress.update(i);
        }
        progress.finish("done");
        progress.finish("again");
    });
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;  // a job shorter than the interval: the end only
    const std::string each = written(ProgressStyle::lines, 0, 10, [](Progress& progress) {
        progress.update(3);
        progress.update(4);
    });
    EXPECT_EQ(std::count(each.begin(), each.end(), '\n'), 2) << each;
    EXPECT_NE(text.find("100 %  10/10 docs  0:00 left  done\n"), std::string::npos) << text;
    EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(Progress, BarIsRedrawnCoveredAndClosed) {
    const std::string text = written(ProgressStyle::bar, 0, 4, [](Progress& progress) {
        progress.update(1, "a long note");
        progress.update(2, "");
        progress.clear();
        progress.update(4, "");
    });
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    EXPECT_NE(text.find("\rpack [######..................]  25 %"), std::string::npos) << text;
    EXPECT_NE(text.find("\rpack [########################] 100 %"), std::string::npos) << text;
    // The second line is padded to the length of the first.
    const std::size_t second = text.find('\r', 1), third = text.find('\r', second + 1);
    EXPECT_EQ(third - second, second) << text;
    EXPECT_EQ(written(ProgressStyle::silent, 0, 4,
                      [](Progress& progress) {
                          progress.update(1);
                          progress.finish();
                      }),
              "");
}

}  // namespace
}  // namespace ogrom
