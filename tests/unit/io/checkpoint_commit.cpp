#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/file.h"
#include "src/base/text.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_write.h"
#include "src/io/io_thread.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using test::SmallState;

// The save of one writer of two (or more) after the other, without communicator or threads: what save_checkpoint does
// over ranks.
class Saver {
public:
    explicit Saver(i64 step) : state_(test::small_model()), header_(test::small_header(step)) {
        header_.run_toml = "[run]\n";
        header_.weight_hash = weight_hash(std::span<const float>(state_.weights), state_.layout);
    }
    void save(const Disk& disk, const std::string& directory, int writers = 2) const {
        const std::string temporary = directory + "/" + temporary_name(header_.step);
        disk.make_folders(temporary);
        Manifest manifest{1, header_.step, {}};
        Placement placement(state_.layout.table());
        for (int writer = 0; writer < writers; ++writer) {
            const auto groups = state_groups(state_.const_view(), writer_range(state_.layout.size(), writer, writers));
            const Part part = make_part<float>(state_.layout, std::span(groups));
            unpack(pack(part), writer, placement);
            manifest.files.push_back(write_file(disk, temporary, lay_out_part(part, writer)));
        }
        manifest.files.push_back(
            write_file(disk, temporary, lay_out_master(placement, Dtype::fp32, header_, state_.model)));
        write_manifest(disk, temporary, manifest);
        commit(disk, directory, temporary, header_.step);
        prune(disk, directory, header_.step, 1);
    }

private:
    SmallState<float> state_;
    CheckpointHeader header_;
};

std::string load_fault(const std::string& path) {
    return test::fault_text([&] {
        SmallState<float> state(test::small_model());
        state.poison();
        std::vector<std::string> skipped;
        load_checkpoint<float>(*make_single_communicator(), path, state.layout, state.view(), true, skipped);
        require(state.wrong() == 0, ExitCode::checkpoint, "wrong values were read");
    });
}

// Saves in a process of its own that dies without clean-up before operation `last`; false when it lived on. Only the
// saver runs in the child: threads of the parent do not exist there.
bool die_before(const Saver& saver, const std::string& directory, i64 last) {
    const pid_t child = ::fork();
    if (child == 0) {
        i64 operation = 0;
        saver.save(Disk([&](const std::string&, const std::string&) {
                       if (operation++ == last) {
                           ::_exit(9);
                       }
                   }),
                   directory);
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 9;
}

TEST(CheckpointCommit, ADeathAtAnyOperationLeavesAValidCheckpoint) {
    const Folder folder;
    const Saver second(2), fourth(4);
    fs::create_directories(folder.path("prepared"));
    second.save(Disk(), folder.path("prepared"));
    i64 deaths = 0;
    for (; true; ++deaths) {
        const std::string run = folder.path("run" + std::to_string(deaths));
        fs::copy(folder.path("prepared"), run, fs::copy_options::recursive);
        const bool died = die_before(fourth, run, deaths);
        std::vector<std::string> passed;
        const auto found = find_latest(run, passed);
        ASSERT_TRUE(found.has_value()) << "death before operation " << deaths;
        EXPECT_TRUE(passed.empty()) << passed.front();
        EXPECT_EQ(load_fault(*found), "") << "death before operation " << deaths;
        // `latest` never names what is not there and complete.
        const std::string latest = trim(read_file(run + "/latest", 100));
        EXPECT_EQ(incomplete_reason(run + "/" + latest), "") << "death before operation " << deaths;
        // A resume is told of a save that was cut off, and how far it had come.
        const bool cut_off =
            !found->ends_with("step-00000004") && std::ranges::any_of(list_directory(run), [](const auto& name) {
                return name.starts_with("step-00000004.tmp-");
            });
        const std::vector<std::string> told = unfinished_saves(run, 2);
        ASSERT_EQ(told.size(), cut_off ? 1u : 0u) << "death before operation " << deaths;
        EXPECT_TRUE(told.empty() || told[0].find("is a save that did not finish: ") != std::string::npos) << told[0];
        // The next save clears what the dead process left, and nothing else.
        remove_stale(Disk(), run);
        for (const std::string& name : list_directory(run)) {
            EXPECT_TRUE(name == "latest" || step_of(name)) << name;
        }
        fs::remove_all(run);
        if (!died) {
            EXPECT_TRUE(found->ends_with("step-00000004"));
            break;
        }
    }
    EXPECT_GE(deaths, 15);
}

TEST(CheckpointCommit, NothingIsNamedBeforeItIsDurable) {
    const Folder folder;
    std::vector<std::string> done;
    Saver(4).save(Disk([&](const std::string& operation, const std::string& path) {
                      done.push_back(operation + " " + fs::path(path).filename().string());
                  }),
                  folder.path());
    const auto place = [&](const std::string& operation) {
        const auto found = std::find(done.begin(), done.end(), operation);
        EXPECT_NE(found, done.end()) << operation;
        return found - done.begin();
    };
    EXPECT_LT(place("sync_file part-00000.h5"), place("create checkpoint.h5"));
    EXPECT_LT(place("sync_file part-00001.h5"), place("create checkpoint.h5"));
    EXPECT_LT(place("sync_file checkpoint.h5"), place("create manifest.json"));
    EXPECT_LT(place("sync_file manifest.json"), place("rename step-00000004"));
    const auto sync = std::find_if(done.begin(), done.end(), [](const std::string& line) {
        return line.starts_with("sync_folder step-00000004.tmp-");
    });
    ASSERT_NE(sync, done.end());
    EXPECT_LT(place("sync_file manifest.json"), sync - done.begin());
    EXPECT_LT(sync - done.begin(), place("rename step-00000004"));
    EXPECT_LT(place("rename step-00000004"), place("replace latest"));
}

// Field case B56: what a rank asks of the file system is the same for any number of ranks, the one that commits
// included.
TEST(CheckpointCommit, TheOperationsOfARankDoNotGrowWithTheRanks) {
    std::map<std::string, i64> of_one;
    for (const int writers : {1, 2, 4, 8}) {
        const Folder folder;
        std::map<std::string, i64> count;  // of each part, and of all that the first rank does alone
        const Disk disk([&](const std::string&, const std::string& path) {
            const std::string name = fs::path(path).filename().string();
            ++count[name.starts_with("part-") ? name : "commit"];
        });
        Saver(4).save(disk, folder.path(), writers);
        ASSERT_EQ(count.size(), static_cast<std::size_t>(writers) + 1);
        if (writers == 1) {
            of_one = count;
            // Create, sync, and a write for each run of neighbours in memory, which padding cuts: far below 3 x
            // tensors.
            EXPECT_LE(count["part-00000.h5"], 12);
            EXPECT_LE(count["commit"], 16);
        }
        for (const auto& [name, operations] : count) {
            const std::string same = name == "commit" ? name : std::string("part-00000.h5");
            EXPECT_LE(operations, of_one[same]) << name << " of " << writers << " writers";
        }
    }
}

TEST(CheckpointCommit, TheSameStepAgainTakesThePlaceOfTheOldOne) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 4, 2);
    fs::remove(step + "/part-00001.h5");
    test::save_small<float>(folder.path(), 4, 1);
    EXPECT_EQ(load_fault(step), "");
    EXPECT_EQ(list_directory(folder.path()), (std::vector<std::string>{"latest", "step-00000004"}));
}

TEST(CheckpointCommit, KeepLastRemovesOlderCompleteOnesOnly) {
    const Folder folder;
    for (const i64 step : {1, 2, 3}) {
        test::save_small<float>(folder.path(), step, 1);
    }
    fs::remove(folder.path("step-00000002/manifest.json"));
    test::save_small<float>(folder.path(), 4, 1, 2);
    // 4 and 3 are kept, 1 goes; 2 is incomplete and stays as it is.
    EXPECT_EQ(list_directory(folder.path()),
              (std::vector<std::string>{"latest", "step-00000002", "step-00000003", "step-00000004"}));
}

TEST(CheckpointCommit, KeepEveryKeepsItsMultiplesBesideTheNewest) {
    const Folder folder;
    for (const i64 step : {2, 3, 4, 5, 6, 7, 8, 9}) {
        test::save_small<float>(folder.path(), step, 1, {2, 3});
    }
    EXPECT_EQ(list_directory(folder.path()),
              (std::vector<std::string>{"latest", "step-00000003", "step-00000006", "step-00000008", "step-00000009"}));
}

TEST(CheckpointCommit, ARunThatWentBackSetsTheLaterOnesAside) {
    const Folder folder;
    test::save_small<float>(folder.path(), 2, 1);
    test::save_small<float>(folder.path(), 9, 1);
    const std::string third = test::save_small<float>(folder.path(), 3, 1);  // resumed from 2
    std::vector<std::string> passed;
    EXPECT_EQ(find_latest(folder.path(), passed), std::optional(third));
    i64 aside = 0;
    for (const std::string& name : list_directory(folder.path())) {
        aside += name.starts_with("step-00000009.abandoned-") ? 1 : 0;
    }
    EXPECT_EQ(aside, 1);  // kept on the disk, under a name that nothing resumes from
}

TEST(CheckpointCommit, OnlyTemporariesThatNobodyCanFinishAreRemoved) {
    const Folder folder;
    const std::string mine = temporary_name(3);
    std::string parent = mine;  // same host, a process that lives: our parent
    const std::string pid = "-" + std::to_string(::getpid()) + "-";
    parent.replace(parent.find(pid), pid.size(), "-" + std::to_string(::getppid()) + "-");
    for (const std::string& name : {mine, parent, std::string("step-00000003.tmp-some-other-host-12-00000001"),
                                    std::string("step-00000005"), std::string("notes.tmp-x-1-2")}) {
        fs::create_directories(folder.path(name));
    }
    const std::vector<std::string> lines = remove_stale(Disk(), folder.path());
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find(mine), std::string::npos);
    EXPECT_FALSE(fs::exists(folder.path(mine)));
    EXPECT_EQ(list_directory(folder.path()).size(), 4u);
}

TEST(CheckpointCommit, AFullDiskIsAnErrorOnEveryRankAndThePreviousStays) {
    const Folder folder;
    const std::string previous = test::save_small<float>(folder.path(), 2, 2);
    // Files of this process end at 8000 bytes: parts are longer, as on a disk that fills during the save.
    struct rlimit before {};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small { 8000, before.rlim_max };
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    std::vector<std::string> faults;
    test::as_ranks(
        2,
        [&](Communicator& dp) {
            const SmallState<float> state(test::small_model());
            save_checkpoint<float>(dp, folder.path(), test::small_header(4), state.layout, state.model,
                                   state.const_view(), 1);
        },
        &faults);
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, handler);
    EXPECT_NE(faults[0].find("rank 0: "), std::string::npos) << faults[0];
    EXPECT_NE(faults[0].find("part-00000.h5"), std::string::npos) << faults[0];
    EXPECT_EQ(faults[1], faults[0]);
    EXPECT_EQ(list_directory(folder.path()), (std::vector<std::string>{"latest", "step-00000002"}));
    EXPECT_EQ(load_fault(previous), "");
    test::save_small<float>(folder.path(), 4, 2, 1);  // room again: the run goes on
    EXPECT_EQ(list_directory(folder.path()), (std::vector<std::string>{"latest", "step-00000004"}));
}

TEST(CheckpointCommit, TooLittleSpaceIsSaidBeforeAnythingIsWritten) {
    const Folder folder;
    fs::create_directories(folder.path("small"));
    if (::mount("tmpfs", folder.path("small").c_str(), "tmpfs", 0, "size=64k") != 0) {
        GTEST_SKIP() << "no permission to mount a small tmpfs";
    }
    const std::string text = test::fault_text([&] { test::save_small<float>(folder.path("small"), 2, 1); });
    const bool empty = list_directory(folder.path("small")).empty();
    ::umount(folder.path("small").c_str());
    EXPECT_NE(text.find("a checkpoint needs"), std::string::npos) << text;
    EXPECT_NE(text.find("65536 bytes"), std::string::npos) << text;
    EXPECT_TRUE(empty);
}

TEST(CheckpointCommit, AFolderThatCannotBeWrittenIsAnErrorOnEveryRank) {
    const Folder folder;
    write_file_atomic(folder.path("file"), "not a folder");
    std::vector<std::string> faults;
    test::as_ranks(
        3,
        [&](Communicator& dp) {
            const SmallState<float> state(test::small_model());
            save_checkpoint<float>(dp, folder.path("file/checkpoints"), test::small_header(4), state.layout,
                                   state.model, state.const_view(), 1);
        },
        &faults);
    EXPECT_NE(faults[0].find("file/checkpoints"), std::string::npos) << faults[0];
    EXPECT_EQ(faults[2], faults[0]);
}

TEST(CheckpointCommit, APathMayBeAStepAFileOrARun) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path("checkpoints"), 4, 1);
    for (const std::string& path : {step, step + "/", step + "/checkpoint.h5", folder.path("checkpoints"),
                                    folder.path(), folder.path("checkpoints/latest")}) {
        EXPECT_EQ(resolve_checkpoint(path), step) << path;
    }
    // `latest` means what it says, even where a newer step stands beside it.
    const std::string newer = test::save_small<float>(folder.path("checkpoints"), 6, 1);
    write_file_atomic(folder.path("checkpoints/latest"), "step-00000004\n");
    EXPECT_EQ(resolve_checkpoint(folder.path("checkpoints/latest")), step);
    EXPECT_EQ(resolve_checkpoint(folder.path("checkpoints")), newer);
    write_file_atomic(folder.path("checkpoints/latest"), "../../etc\n");
    EXPECT_NE(test::fault_text([&] { resolve_checkpoint(folder.path("checkpoints/latest")); }).find("no complete"),
              std::string::npos);
    EXPECT_NE(test::fault_text([&] { resolve_checkpoint(folder.path("elsewhere")); }).find("no complete checkpoint"),
              std::string::npos);
}

}  // namespace
}  // namespace ogrom
