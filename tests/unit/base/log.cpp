#include "src/base/log.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <regex>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"

namespace ogrom {
namespace {

std::string captured(void (*call)()) {
    ::testing::internal::CaptureStderr();
    call();
    flush_log();
    return ::testing::internal::GetCapturedStderr();
}

// stderr is a file while it is captured, so lines have the long form unless the test runs on a terminal and the rank
// was set before; every test sets the rank itself.
TEST(Log, LinesCarryTimeRankHostAndLevel) {
    const std::string text = captured([] {
        set_log_rank(0, "node7");
        log_info("step {} of {}", 3, 10);
    });
    const std::regex line(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z rank 0 node7 info: step 3 of 10\n)");
    EXPECT_TRUE(std::regex_match(text, line)) << text;
}

TEST(Log, OtherRanksOnlyWarn) {
    const std::string text = captured([] {
        set_log_rank(3, "node%8");
        log_info("not shown");
        log_warning("shown {}", 1);
        log_error("shown 2");
        set_log_rank(0, "node");
    });
    EXPECT_EQ(text.find("not shown"), std::string::npos);
    EXPECT_NE(text.find("rank 3 node%8 warning: shown 1\n"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 3 node%8 error: shown 2\n"), std::string::npos) << text;
}

TEST(Log, LevelsBelowTheChosenOneAreDropped) {
    const std::string text = captured([] {
        set_log_rank(0, "node");
        log_debug("hidden");
        set_log_level(LogLevel::debug);
        log_debug("visible");
        set_log_level(LogLevel::info);
    });
    EXPECT_EQ(text.find("hidden"), std::string::npos);
    EXPECT_NE(text.find("debug: visible"), std::string::npos) << text;
}

TEST(Log, FileGetsTheSameLinesInTheLongForm) {
    std::string folder = ::testing::TempDir() + "ogrom-log-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    static std::string path;
    path = join_path(folder, "log.txt");
    write_file_atomic(path, "kept\n");
    captured([] {
        set_log_rank(0, "node");
        open_log_file(path);
        log_warning("braces {{}} and percent %v {}", "{}");
    });
    const std::string text = read_file(path, 1000);
    EXPECT_TRUE(text.starts_with("kept\n")) << text;
    EXPECT_NE(text.find("Z rank 0 node warning: braces {} and percent %v {}\n"), std::string::npos) << text;
    EXPECT_THROW(open_log_file(join_path(path, "inner.txt")), Error);  // a file is no folder
    remove_tree(folder);
}

}  // namespace
}  // namespace ogrom
