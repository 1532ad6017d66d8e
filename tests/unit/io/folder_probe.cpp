// One rank; several ranks: cli/check.sh.
#include "src/io/folder_probe.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/file.h"
#include "src/base/host.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;

constexpr FolderProbeOptions quick{.bytes_each = i64{8} << 20, .write_seconds = 5, .patience_s = 0.5};

FolderProbe probe(const std::string& folder) {
    const std::unique_ptr<Communicator> alone = make_single_communicator();
    const std::vector<std::string> hosts = {"here"};
    return probe_folder(*alone, folder, hosts, quick);
}

TEST(FolderProbe, OfAnOrdinaryFolderFindsNothingAndLeavesNothing) {
    const Folder folder;
    const FolderProbe found = probe(folder.path());
    EXPECT_TRUE(found.findings.empty()) << found.findings[0].text;
    EXPECT_EQ(found.folder, folder.path());
    EXPECT_EQ(found.written_bytes, i64{8} << 20);
    EXPECT_GT(found.write_bytes_per_s, 0);
    EXPECT_GT(found.free_bytes, 0);
    EXPECT_TRUE(found.locks);
    EXPECT_EQ(found.reads, found.replacements);
    EXPECT_TRUE(list_directory(folder.path()).empty());
}

TEST(FolderProbe, OfAFolderThatIsNotThereYetLooksAtTheOneAbove) {
    const Folder folder;
    const FolderProbe found = probe(join_path(folder.path(), "a/b"));
    EXPECT_EQ(found.folder, folder.path());
    EXPECT_TRUE(found.findings.empty());
    EXPECT_TRUE(list_directory(folder.path()).empty());
}

TEST(FolderProbe, AFolderThatCannotBeWrittenIsAFaultAndNoException) {
    const FolderProbe found = probe("/proc");
    ASSERT_EQ(found.findings.size(), 1U);
    EXPECT_EQ(found.findings[0].level, FindingLevel::fault);
    EXPECT_EQ(found.findings[0].code, ExitCode::checkpoint);
    EXPECT_NE(found.findings[0].text.find("rank 0 (host here): /proc/"), std::string::npos) << found.findings[0].text;
    EXPECT_EQ(found.written_bytes, 0);
}

TEST(FolderProbe, AFileInThePlaceOfTheFolderIsAFault) {
    const Folder folder;
    const std::string file = join_path(folder.path(), "results");
    ASSERT_TRUE(create_file_exclusive(file, "x"));
    const FolderProbe found = probe(file);
    ASSERT_EQ(found.findings.size(), 1U);
    EXPECT_NE(found.findings[0].text.find(file), std::string::npos) << found.findings[0].text;
}

TEST(FolderProbe, RemovesWhatAKilledCheckLeft) {
    const Folder folder;
    const pid_t gone = fork();
    if (gone == 0) {
        _exit(0);
    }
    waitpid(gone, nullptr, 0);
    const std::string left = fmt::format(".ogrom-check-{}-{}", host_name(), gone);
    const std::string alive = fmt::format(".ogrom-check-{}-{}", host_name(), getppid());
    make_directories(join_path(folder.path(), left));
    make_directories(join_path(folder.path(), alive));
    probe(folder.path());
    EXPECT_EQ(list_directory(folder.path()), std::vector<std::string>{alive});
}

}  // namespace
}  // namespace ogrom
