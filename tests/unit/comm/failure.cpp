// What is said and recorded when a job fails: one message, one call of the hook, places in our source, cores.
#include <gtest/gtest.h>
#include <sched.h>
#include <stdexcept>
#include <thread>
#include <unistd.h>

#include "src/comm/affinity.h"
#include "src/comm/control.h"
#include "src/comm/node_memory.h"
#include "src/comm/source_text.h"

namespace ogrom {
namespace {

Control::Place on_node(int node) {
    Control::Place place;
    place.node = node;
    place.nodes = 2;
    place.host = "host-a";
    return place;
}

class FailureHookTest : public testing::Test {
protected:
    NodeMemory memory = NodeMemory::alone(Control::segment_bytes(1));
    std::vector<std::string> told;
    FailureHook hook = [this](ExitCode code, const std::string& text) {
        told.push_back(std::to_string(static_cast<int>(code)) + " " + text);
    };
};

TEST_F(FailureHookTest, is_called_once_with_what_was_printed) {
    Control control(memory.data(), on_node(0));
    control.set_failure_hook(hook);
    control.finish_failure();
    EXPECT_TRUE(told.empty());  // nothing has failed
    testing::internal::CaptureStderr();
    EXPECT_TRUE(control.claim_and_print({2, ExitCode::checkpoint, "rank 2: disk full"}, 0));
    EXPECT_FALSE(control.claim_and_print({3, ExitCode::peer, "an echo"}, 0));
    control.finish_failure();
    control.finish_failure();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "ogrom: rank 2: disk full\n");
    EXPECT_EQ(told, std::vector<std::string>{"4 rank 2: disk full"});
}

TEST_F(FailureHookTest, is_silent_in_processes_that_do_not_print) {
    Control other_node(memory.data(), on_node(1));
    other_node.set_failure_hook(hook);
    testing::internal::CaptureStderr();
    EXPECT_TRUE(other_node.claim_and_print({2, ExitCode::peer, "rank 2 died"}, 0));
    other_node.finish_failure();
    Control late(memory.data(), on_node(0));  // the failure is another's
    late.set_failure_hook(hook);
    EXPECT_FALSE(late.claim_and_print({2, ExitCode::peer, "rank 2 died again"}, 0));
    late.finish_failure();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_TRUE(told.empty());
}

TEST_F(FailureHookTest, may_be_taken_back_and_may_fail) {
    Control control(memory.data(), on_node(0));
    control.set_failure_hook(hook);
    control.set_failure_hook([](ExitCode, const std::string&) { throw std::runtime_error("no space left"); });
    testing::internal::CaptureStderr();
    control.claim_and_print({2, ExitCode::peer, "rank 2 died"}, 0);
    control.finish_failure();
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "ogrom: rank 2 died\nogrom: note: the failure could not be recorded: no space left\n");
    EXPECT_TRUE(told.empty());
}

// The main thread must not end the process while the watchdog still records.
TEST_F(FailureHookTest, holds_the_other_threads_until_it_returns) {
    Control control(memory.data(), on_node(0));
    std::atomic<bool> begun{false}, ended{false};
    control.set_failure_hook([&](ExitCode, const std::string&) {
        begun.store(true);
        usleep(50'000);
        ended.store(true);
    });
    testing::internal::CaptureStderr();
    control.claim_and_print({2, ExitCode::peer, "rank 2 died"}, 0);
    std::thread watchdog([&] { control.finish_failure(); });
    while (!begun.load()) {
        std::this_thread::yield();
    }
    control.finish_failure();
    EXPECT_TRUE(ended.load());
    watchdog.join();
    testing::internal::GetCapturedStderr();
}

TEST(SourceText, is_relative_to_the_repository) {
    const SourcePlace here = SourcePlace::current();
    EXPECT_EQ(source_text(here), "tests/unit/comm/failure.cpp:" + std::to_string(here.line()));
    EXPECT_EQ(source_text(SourcePlace::current("/elsewhere/library.h", 7)), "/elsewhere/library.h:7");
}

TEST(Affinity, counts_the_cores_that_any_of_the_ranks_may_use) {
    CpuMask first{}, second{};
    first[0] = 0b0011;
    second[0] = 0b0110;
    second[100] = 1;
    const CpuMask both[] = {first, second};
    EXPECT_EQ(count_cpus(both), 4);
    EXPECT_EQ(count_cpus({&first, 1}), 2);
    EXPECT_EQ(count_cpus({}), 0);
}

TEST(Affinity, follows_what_this_thread_is_bound_to) {
    const CpuMask before = allowed_cpus(0);
    const i64 cores = count_cpus({&before, 1});
    ASSERT_GE(cores, 1);
    std::thread([&] {
        cpu_set_t one;
        CPU_ZERO(&one);
        for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
            if ((before[static_cast<std::size_t>(core / 64)] >> (core % 64) & 1) != 0) {
                CPU_SET(core, &one);
            }
        }
        ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
        const CpuMask bound = allowed_cpus(0);
        EXPECT_EQ(count_cpus({&bound, 1}), 1);
    }).join();
    EXPECT_EQ(allowed_cpus(0), before);
    EXPECT_EQ(allowed_cpus(1 << 30), CpuMask{});  // no such process
}

}  // namespace
}  // namespace ogrom
