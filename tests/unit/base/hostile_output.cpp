// Output that nobody reads, names that mislead, numbers that no variable holds.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

#include "src/base/file.h"
#include "src/base/log.h"
#include "src/base/text.h"

namespace ogrom {
namespace {

namespace fs = std::filesystem;

TEST(LostReader, LinesGoToTheFileAloneAndItIsSaidThereOnce) {
    std::string folder = ::testing::TempDir() + "ogrom-lost-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    const std::string path = folder + "/log.txt";
    std::signal(SIGPIPE, SIG_IGN);
    set_log_rank(0, "node");
    int ends[2] = {};
    ASSERT_EQ(pipe(ends), 0);
    const int terminal = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    log_info("while somebody reads");
    close(ends[0]);
    log_info("before the file is open");
    open_log_file(path);
    log_info("line one");
    log_info("line two");
    dup2(terminal, STDERR_FILENO);
    close(terminal);
    log_info("somebody reads again");  // and is told how many lines went by
    const std::string text = read_file(path, 1 << 16);
    const std::size_t note = text.find("nobody reads standard error any more");
    EXPECT_NE(note, std::string::npos) << text;
    EXPECT_EQ(text.find("nobody reads", note + 1), std::string::npos) << "once: " << text;
    EXPECT_LT(note, text.find("line one")) << text;
    EXPECT_NE(text.find("line two"), std::string::npos) << text;
    fs::remove_all(folder);
}

TEST(SamePlace, KnowsAPlaceUnderEveryName) {
    std::string folder = ::testing::TempDir() + "ogrom-place-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    const fs::path root = folder;
    fs::create_directory(root / "a");
    fs::create_directory_symlink("a", root / "link");
    EXPECT_TRUE(same_place(root / "a/x", root / "a/./x"));
    EXPECT_TRUE(same_place(root / "a/x", root / "link/x"));
    EXPECT_TRUE(same_place(root / "none/x", root / "none/y/../x"));
    EXPECT_FALSE(same_place(root / "a/x", root / "x"));
    EXPECT_FALSE(same_place(root / "a/x", root / "a/y"));
    write_file_atomic(root / "a/file", "1");
    fs::create_symlink("a/file", root / "other-name");
    EXPECT_TRUE(same_place(root / "other-name", root / "a/file"));
    const fs::path before = fs::current_path();
    fs::current_path(root / "a");
    EXPECT_TRUE(same_place("x", "./x"));
    EXPECT_TRUE(same_place("x", (root / "link/x").string()));
    fs::current_path(before);
    EXPECT_FALSE(is_special(root / "a"));
    EXPECT_FALSE(is_special(root / "a/file"));
    EXPECT_FALSE(is_special(root / "nothing"));
    EXPECT_TRUE(is_special("/dev/null"));
    fs::remove_all(folder);
}

TEST(LeftOver, OnlyTemporaryFilesOfThatPathGo) {
    std::string folder = ::testing::TempDir() + "ogrom-left-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    for (const char* name : {"a.json", "a.json.12.tmp", "a.json.x.tmp", "a.json.tmp", "b.json.12.tmp", "a.json.12.tmp2",
                             "a.json.node-7.12.tmp", "a.json.a-node-12.tmp", "a.json.node-.tmp"}) {
        write_file_atomic(folder + "/" + name, "x");
    }
    remove_left_over(folder + "/a.json");
    EXPECT_EQ(list_directory(folder),
              (std::vector<std::string>{"a.json", "a.json.12.tmp2", "a.json.node-.tmp", "a.json.node-7.12.tmp",
                                        "a.json.tmp", "a.json.x.tmp", "b.json.12.tmp"}));
    fs::remove_all(folder);
}

TEST(NumbersTooLarge, AreToldFromTextsAndFromNumbersThatFit) {
    for (const char* large :
         {"1e400", "-1e400", "1.5E999", "99999999999999999999", "9_223_372_036_854_775_808", "+18446744073709551615"}) {
        EXPECT_TRUE(is_number_too_large(large)) << large;
    }
    for (const char* other : {"", "-", "1e308", "1e-400", "10m", "9223372036854775807", "1e400x", "text", "inf"}) {
        EXPECT_FALSE(is_number_too_large(other)) << other;
    }
}

TEST(ControlCharacters, AreFoundInEveryForm) {
    for (const char* bad : {"a\x1b[31m", "\n", "x\x7f",
                            "\xC2\x9B"
                            "31m",
                            "\x01"}) {
        EXPECT_TRUE(has_control(bad)) << quote(bad);
    }
    EXPECT_TRUE(has_control(std::string_view("a\0b", 3)));
    for (const char* good : {"", "plain", "tab\tis kept",
                             "gr\xC3\xBC\xC3\x9F"
                             "e",
                             "\xE2\x82\xAC", "\xC2\xA0"}) {
        EXPECT_FALSE(has_control(good)) << good;
    }
}

}  // namespace
}  // namespace ogrom
