#include "src/io/lease.h"

#include <csignal>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/host.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;

std::string refusal(const std::string& folder) {
    try {
        const Lease second(folder);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    ADD_FAILURE() << "a second holder was not refused";
    return {};
}

TEST(Lease, OneHolderAtATimeAndNothingIsLeft) {
    const Folder folder;
    const std::string path = join_path(folder.path(), "run.lock");
    {
        const Lease first(folder.path());
        EXPECT_EQ(first.replaced(), "");
        const std::string message = refusal(folder.path());
        EXPECT_NE(message.find(fmt::format("process {} on {} since 20", getpid(), host_name())), std::string::npos)
            << message;
        EXPECT_NE(message.find(folder.path()), std::string::npos) << message;
        EXPECT_NE(message.find("run.output"), std::string::npos) << message;
        EXPECT_TRUE(file_exists(path)) << "a refused one must not take the holder's file away";
    }
    EXPECT_FALSE(file_exists(path));
    const Lease again(folder.path());
    EXPECT_EQ(again.replaced(), "");
}

TEST(Lease, OfAKilledProcessIsReplacedWithALine) {
    const Folder folder;
    int ready[2] = {};
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        const Lease held(folder.path());
        if (write(ready[1], "x", 1) == 1) {
            pause();
        }
        _exit(1);
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    const std::string holder = fmt::format("process {} on", child);
    EXPECT_NE(refusal(folder.path()).find(holder), std::string::npos);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
    ASSERT_TRUE(file_exists(join_path(folder.path(), "run.lock")));
    const Lease next(folder.path());
    EXPECT_NE(next.replaced().find(holder), std::string::npos) << next.replaced();
    EXPECT_NE(refusal(folder.path()).find(fmt::format("process {} on", getpid())), std::string::npos);
}

TEST(Lease, MovesWithItsFile) {
    const Folder folder;
    Lease first(folder.path());
    const Lease second(std::move(first));
    EXPECT_FALSE(refusal(folder.path()).empty());
}

TEST(Lease, AFileOfAnyContentBlocksNobody) {
    const Folder folder;
    write_file_atomic(join_path(folder.path(), "run.lock"), std::string(3000, 'z'));
    const Lease lease(folder.path());
    EXPECT_NE(lease.replaced().find("left no name"), std::string::npos) << lease.replaced();
}

TEST(Lease, AMissingFolderIsNamed) {
    const Folder folder;
    try {
        const Lease lease(join_path(folder.path(), "absent"));
        ADD_FAILURE() << "no folder, no lease";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::checkpoint);
        EXPECT_NE(std::string(error.what()).find("absent/run.lock: cannot create"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace ogrom
