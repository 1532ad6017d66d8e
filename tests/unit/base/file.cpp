#include "src/base/file.h"

#include <array>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ogrom {
namespace {

class File : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "ogrom-file-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { remove_tree(folder_); }
    [[nodiscard]] std::string path(const std::string& name) const { return join_path(folder_, name); }

    std::string folder_;
};

template <class Call>
std::string message_of(ExitCode code, Call call) {
    try {
        call();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), code);
        return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
}

TEST_F(File, AtomicWriteReplacesTheWholeContentAndLeavesNoTemporaryFile) {
    const std::string odd = std::string("first\0second\n", 13);
    write_file_atomic(path("a"), "a longer content than what follows it");
    write_file_atomic(path("a"), odd);
    EXPECT_EQ(read_file(path("a"), 100), odd);
    EXPECT_EQ(list_directory(folder_), std::vector<std::string>{"a"});
}

TEST_F(File, AtomicWriteThatFailsLeavesTheOldContent) {
    write_file_atomic(path("a"), "old");
    make_directories(path("folder/inner"));
    // A folder cannot be replaced by a file: the rename fails after the temporary file was written.
    const std::string message =
        message_of(ExitCode::data, [&] { write_file_atomic(path("folder"), "x", ExitCode::data); });
    EXPECT_NE(message.find("rename to " + path("folder")), std::string::npos) << message;
    EXPECT_EQ(list_directory(folder_), (std::vector<std::string>{"a", "folder"}));
    message_of(ExitCode::checkpoint, [&] { write_file_atomic(path("none/a"), "x"); });
    EXPECT_EQ(read_file(path("a"), 3), "old");
}

TEST_F(File, ReadIsBounded) {
    write_file_atomic(path("a"), "12345");
    EXPECT_EQ(read_file(path("a"), 5), "12345");
    const std::string message = message_of(ExitCode::data, [&] { read_file(path("a"), 4, ExitCode::data); });
    EXPECT_NE(message.find("5 bytes; at most 4"), std::string::npos) << message;
    // A device reports size 0 and never ends.
    message_of(ExitCode::checkpoint, [] { read_file("/dev/zero", 1000); });
    message_of(ExitCode::checkpoint, [&] { read_file(folder_, 1000); });
    EXPECT_NE(message_of(ExitCode::usage, [&] { read_file(path("none"), 9, ExitCode::usage); }).find(path("none")),
              std::string::npos);
}

TEST_F(File, ReadsEmptyAndLargeFiles) {
    write_file_atomic(path("empty"), "");
    EXPECT_EQ(read_file(path("empty"), 0), "");
    std::string large((std::size_t{5} << 20) + 3, 'x');
    large[large.size() / 2] = 'y';
    write_file_atomic(path("large"), large);
    EXPECT_EQ(file_size(path("large")), static_cast<i64>(large.size()));
    EXPECT_TRUE(read_file(path("large"), i64{1} << 30) == large);
}

TEST_F(File, ExclusiveCreationHappensOnce) {
    EXPECT_TRUE(create_file_exclusive(path("lease"), "mine"));
    EXPECT_FALSE(create_file_exclusive(path("lease"), "yours"));
    EXPECT_EQ(read_file(path("lease"), 10), "mine");
    message_of(ExitCode::checkpoint, [&] { create_file_exclusive(path("none/lease"), ""); });
    message_of(ExitCode::checkpoint, [&] { FileWriter(path("lease"), Create::exclusive); });
}

TEST_F(File, WriterAppendsCountsAndSyncs) {
    FileWriter first(path("log"), Create::truncate);
    first.write("one\n");
    first.sync();
    EXPECT_EQ(first.written(), 4);
    first.close();
    FileWriter second(path("log"), Create::append);
    second.write("two\n");
    second.close();
    sync_file(path("log"));
    EXPECT_EQ(read_file(path("log"), 10), "one\ntwo\n");
}

TEST_F(File, FullDiskIsReportedByWriteSyncOrClose) {
    if (::access("/dev/full", W_OK) != 0) {
        GTEST_SKIP() << "no /dev/full here";
    }
    FileWriter writer("/dev/full", Create::append);
    const std::string message = message_of(ExitCode::checkpoint, [&] { writer.write("x"); });
    EXPECT_NE(message.find("/dev/full"), std::string::npos);
    EXPECT_NE(message.find("free space"), std::string::npos) << message;
}

TEST_F(File, NoDescriptorStaysOpenAfterFailures) {
    const auto open_files = [] { return list_directory("/proc/self/fd").size(); };
    const std::size_t before = open_files();
    for (int i = 0; i < 20; ++i) {
        message_of(ExitCode::checkpoint, [&] { read_file(folder_, 10); });
        message_of(ExitCode::checkpoint, [&] { write_file_atomic(path("none/a"), "x"); });
        write_file_atomic(path("a"), "x");
        FileWriter abandoned(path("b"), Create::truncate);
    }
    EXPECT_EQ(open_files(), before);
}

TEST_F(File, FoldersAreMadeListedAndRemoved) {
    make_directories(path("a/b/c"));
    make_directories(path("a/b/c"));
    write_file_atomic(path("a/file"), "x");
    EXPECT_TRUE(is_directory(path("a/b")));
    EXPECT_FALSE(is_directory(path("a/file")));
    EXPECT_EQ(list_directory(path("a")), (std::vector<std::string>{"b", "file"}));
    message_of(ExitCode::checkpoint, [&] { make_directories(path("a/file/d")); });
    message_of(ExitCode::checkpoint, [&] { list_directory(path("none")); });
    remove_file(path("a/file"));
    remove_file(path("a/file"));
    EXPECT_FALSE(file_exists(path("a/file")));
    remove_tree(path("a"));
    remove_tree(path("a"));
    EXPECT_FALSE(file_exists(path("a")));
}

TEST_F(File, RenameAcrossFolders) {
    make_directories(path("from"));
    make_directories(path("to"));
    write_file_atomic(path("from/a"), "x");
    rename_durable(path("from/a"), path("to/a"));
    EXPECT_EQ(read_file(path("to/a"), 1), "x");
    message_of(ExitCode::checkpoint, [&] { rename_durable(path("from/a"), path("to/b")); });
}

TEST_F(File, RemoveTreeDoesNotFollowLinks) {
    make_directories(path("keep"));
    write_file_atomic(path("keep/a"), "x");
    make_directories(path("gone"));
    ASSERT_EQ(::symlink(path("keep").c_str(), path("gone/link").c_str()), 0);
    remove_tree(path("gone"));
    EXPECT_TRUE(file_exists(path("keep/a")));
}

TEST_F(File, PathsAndSpace) {
    EXPECT_EQ(parent_path("a/b"), "a");
    EXPECT_EQ(parent_path("b"), ".");
    EXPECT_EQ(parent_path("/b"), "/");
    EXPECT_EQ(join_path("a", "b"), "a/b");
    EXPECT_GT(free_bytes(folder_), 0);
    message_of(ExitCode::checkpoint, [&] { free_bytes(path("none")); });
}

}  // namespace
}  // namespace ogrom
