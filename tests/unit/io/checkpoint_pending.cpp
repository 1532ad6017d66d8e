// A save that is written behind the caller's back: every death leaves a valid checkpoint, faults are those of a save
// that is waited for, and nothing of it outlives its owner.
#include "src/io/checkpoint_pending.h"

#include <atomic>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "src/base/file.h"
#include "src/base/text.h"
#include "src/io/checkpoint_folder.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using test::SmallState;
using Save = std::unique_ptr<PendingSave>;

enum class Mode { waited_for, background };

class CheckpointPending : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, CheckpointPending, testing::Values(Mode::waited_for, Mode::background),
                         [](const auto& mode) { return mode.param == Mode::background ? "background" : "waited_for"; });

// One rank's share of small_model, which must live as long as the save.
struct Rank {
    SmallState<float> state{test::small_model()};
    std::vector<StateGroup<const float>> groups;
    Rank(const Communicator& comm, double shift = 0) {
        for (float& weight : state.weights) {
            weight += static_cast<float>(shift);
        }
        groups = state_groups(state.const_view(), writer_range(state.layout.size(), comm.rank(), comm.size()));
    }
    Save begin(Communicator& comm, const std::string& directory, i64 step, SaveOptions options) {
        CheckpointHeader header = test::small_header(step);
        header.run_toml = "[run]\n";
        header.weight_hash = weight_hash(std::span<const float>(state.weights), state.layout);
        return begin_save<float>(comm, directory, header, state.layout, state.model, std::span(groups),
                                 std::move(options));
    }
};

// Whether every rank's background work is over, as the step's own agreement says it in a run.
bool all_idle(Communicator& comm, const PendingSave& save) {
    const i64 mine = save.busy() ? 1 : 0;
    std::vector<i64> all(static_cast<std::size_t>(comm.size()));
    comm.all_gather(all.data(), &mine, 1, Dtype::i64, "busy").wait();
    return std::count(all.begin(), all.end(), 1) == 0;
}

// Boundaries between steps until the save is durable; how many found it under way.
i64 poll_to_the_end(Communicator& comm, PendingSave& save) {
    i64 boundaries = 0;
    for (bool over = false; !over; ++boundaries) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        over = all_idle(comm, save) && save.advance();
    }
    return boundaries;
}

void end(Mode mode, Communicator& comm, PendingSave& save) {
    if (mode == Mode::background) {
        poll_to_the_end(comm, save);
    } else {
        save.finish();
    }
}

std::string load_fault(const std::string& path) {
    return test::fault_text([&] {
        SmallState<float> state(test::small_model());
        state.poison();
        std::vector<std::string> skipped;
        load_checkpoint<float>(*make_single_communicator(), path, state.layout, state.view(), true, skipped);
        require(state.wrong() == 0, ExitCode::checkpoint, "wrong values were read");
    });
}

// Two ranks save in a process of its own that dies without clean-up before operation `last`; false when it lived on.
// Threads of the parent do not exist there, hence the I/O thread of its own.
bool die_before(Mode mode, const std::string& directory, i64 step, i64 last) {
    const pid_t child = ::fork();
    if (child == 0) {
        std::atomic<i64> operation{0};
        IoThread thread;
        const Disk disk([&](const std::string&, const std::string&) {
            if (operation++ == last) {
                ::_exit(9);
            }
        });
        test::as_ranks(2, [&](Communicator& comm) {
            Rank rank(comm);
            const Save save = rank.begin(comm, directory, step, {.keep = 1, .disk = disk, .thread = &thread});
            end(mode, comm, *save);
        });
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 9;
}

TEST_P(CheckpointPending, ADeathAtAnyOperationLeavesAValidCheckpoint) {
    const Folder folder;
    ASSERT_FALSE(die_before(GetParam(), folder.path("prepared"), 2, -1));
    i64 deaths = 0;
    for (; true; ++deaths) {
        const std::string run = folder.path(fmt::format("run{}", deaths));
        fs::copy(folder.path("prepared"), run, fs::copy_options::recursive);
        if (!die_before(GetParam(), run, 4, deaths)) {
            break;
        }
    }
    EXPECT_GE(deaths, 15);
    for (i64 death = 0; death <= deaths; ++death) {
        const std::string run = folder.path(fmt::format("run{}", death));
        std::vector<std::string> passed;
        const auto found = find_latest(run, passed);
        ASSERT_TRUE(found.has_value()) << "death before operation " << death;
        EXPECT_TRUE(passed.empty()) << passed.front();
        EXPECT_EQ(load_fault(*found), "") << "death before operation " << death;
        const std::string latest = trim(read_file(join_path(run, "latest"), 100));
        EXPECT_EQ(incomplete_reason(join_path(run, latest)), "") << "death before operation " << death;
        EXPECT_TRUE(death < deaths || found->ends_with("step-00000004"));
        remove_stale(Disk(), run);
        for (const std::string& name : list_directory(run)) {
            EXPECT_TRUE(name == "latest" || step_of(name)) << name;
        }
    }
}

TEST_P(CheckpointPending, AFaultOfOneRankIsThatOfAllAndThePreviousStays) {
    const Folder folder;
    const std::string previous = test::save_small<float>(folder.path(), 2, 2);
    struct rlimit before {};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small { 8000, before.rlim_max };  // as a disk that fills during the save
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    std::vector<std::string> faults;
    test::as_ranks(
        2,
        [&](Communicator& comm) {
            Rank rank(comm);
            const Save save = rank.begin(comm, folder.path(), 4, {.keep = 1});
            end(GetParam(), comm, *save);
        },
        &faults);
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, handler);
    EXPECT_NE(faults[0].find("rank 0: "), std::string::npos) << faults[0];
    EXPECT_NE(faults[0].find("part-00000.h5"), std::string::npos) << faults[0];
    EXPECT_EQ(faults[1], faults[0]);
    EXPECT_EQ(list_directory(folder.path()), (std::vector<std::string>{"latest", "step-00000002"}));
    EXPECT_EQ(load_fault(previous), "");
}

TEST_P(CheckpointPending, WhatComesBeforeTheCommitMayRefuseIt) {
    const Folder folder;
    std::vector<std::string> done;
    const auto watch = [&](const std::string& operation, const std::string& path) {
        done.push_back(operation + " " + fs::path(path).filename().string());
    };
    for (const bool refuses : {false, true}) {
        std::vector<std::string> faults;
        test::as_ranks(
            2,
            [&](Communicator& comm) {
                Rank rank(comm);
                SaveOptions options;
                if (comm.rank() == 0) {
                    options.disk = Disk(watch);
                    options.before_commit = [&] {
                        done.emplace_back("before");
                        require(!refuses, ExitCode::checkpoint, "metrics are not there");
                    };
                }
                const Save save = rank.begin(comm, folder.path(), refuses ? 5 : 4, std::move(options));
                end(GetParam(), comm, *save);
            },
            &faults);
        EXPECT_EQ(faults[0], refuses ? "rank 0: metrics are not there" : "");
        EXPECT_EQ(faults[1], faults[0]);
    }
    const auto place = [&](const std::string& entry) {
        return std::find(done.begin(), done.end(), entry) - done.begin();
    };
    EXPECT_LT(place("sync_file part-00000.h5"), place("before"));
    EXPECT_LT(place("before"), place("create checkpoint.h5"));
    EXPECT_EQ(list_directory(folder.path()), (std::vector<std::string>{"latest", "step-00000004"}));
}

// A pace at which the parts would take hours: the caller goes on meanwhile, and who waits is not kept waiting.
TEST(CheckpointPace, TheCallerGoesOnAndWhoeverWaitsIsNotPaused) {
    const Folder folder;
    test::as_ranks(2, [&](Communicator& comm) {
        Rank rank(comm);
        Disk disk;
        disk.set_pace(std::make_shared<Pace>(1.0));
        const Save save = rank.begin(comm, folder.path(), 4, {.keep = 1, .disk = disk});
        for (int step = 0; step < 20; ++step) {
            EXPECT_FALSE(all_idle(comm, *save));
            if (comm.rank() == 0) {
                EXPECT_FALSE(fs::exists(folder.path("step-00000004")));
            }
        }
        save->finish();
        EXPECT_TRUE(save->step() == 4 && (comm.rank() > 0 || save->bytes() > 0));
    });
    EXPECT_EQ(load_fault(folder.path("step-00000004")), "");
}

TEST(CheckpointPace, AnOwnerThatGoesEndsTheWritingAndLeavesATemporaryFolder) {
    const Folder folder;
    {
        const auto comm = make_single_communicator();
        Rank rank(*comm);
        Disk disk;
        disk.set_pace(std::make_shared<Pace>(1.0));
        const Save save = rank.begin(*comm, folder.path(), 4, {.keep = 1, .disk = disk});
    }  // does not wait for hours, and the memory of the rank goes
    ASSERT_EQ(list_directory(folder.path()).size(), 1u);
    EXPECT_TRUE(list_directory(folder.path())[0].starts_with("step-00000004.tmp-"));
    EXPECT_EQ(remove_stale(Disk(), folder.path()).size(), 1u);
    EXPECT_TRUE(fs::is_empty(folder.path()));
}

i64 open_descriptors() {
    return static_cast<i64>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

TEST(CheckpointPendingMany, FiftySavesLeaveNoDescriptorAndNoFolder) {
    const Folder folder;
    test::save_small<float>(folder.path(), 1, 2);  // what is opened once is open
    const i64 before = open_descriptors();
    test::as_ranks(2, [&](Communicator& comm) {
        Rank rank(comm);
        for (i64 step = 2; step <= 51; ++step) {
            const Save save = rank.begin(comm, folder.path(), step, {.keep = 1});
            end(Mode::background, comm, *save);
        }
    });
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_EQ(list_directory(folder.path()), (std::vector<std::string>{"latest", "step-00000051"}));
}

}  // namespace
}  // namespace ogrom
