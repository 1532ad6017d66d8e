#include "src/io/provisional.h"

#include <filesystem>
#include <gtest/gtest.h>

#include "src/base/file.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;

TEST(Provisional, ARefusedRunLeavesNothingOfItsOwn) {
    const Folder folder;
    {
        Provisional provisional(folder.path("results/runs/first/"));
        provisional.add("log.txt");
        write_file_atomic(folder.path("results/runs/first/log.txt"), "refused\n");
    }
    EXPECT_TRUE(list_directory(folder.path()).empty());
}

TEST(Provisional, WhatStoodThereAndWhatOthersWriteStays) {
    const Folder folder;
    make_directories(folder.path("runs/old"));
    write_file_atomic(folder.path("runs/old/log.txt"), "of an earlier run\n");
    {
        Provisional old(folder.path("runs/old")), shared(folder.path("runs/shared"));
        old.add("log.txt");
        old.add("never-made");
        shared.add("log.txt");
        write_file_atomic(folder.path("runs/shared/log.txt"), "ours\n");
        write_file_atomic(folder.path("runs/shared/notes"), "of somebody else\n");
    }
    EXPECT_EQ(read_file(folder.path("runs/old/log.txt"), 100), "of an earlier run\n");
    EXPECT_EQ(list_directory(folder.path("runs/shared")), std::vector<std::string>{"notes"});
}

TEST(Provisional, AnAcceptedRunKeepsAll) {
    const Folder folder;
    {
        Provisional provisional(folder.path("run"));
        provisional.add("log.txt");
        write_file_atomic(folder.path("run/log.txt"), "accepted\n");
        provisional.keep();
    }
    EXPECT_EQ(read_file(folder.path("run/log.txt"), 100), "accepted\n");
}

}  // namespace
}  // namespace ogrom
