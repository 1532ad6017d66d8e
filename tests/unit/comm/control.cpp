#include "src/comm/control.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "src/comm/node_memory.h"
#include "src/comm/wait.h"

namespace ogrom {
namespace {

Control::Place place_of_rank(int rank, int ranks) {
    Control::Place place;
    place.world_rank = place.node_rank = rank;
    place.node_size = ranks;
    place.host = "host-a";
    return place;
}

TEST(Flight, ring_keeps_the_newest) {
    FlightRecord record;
    EXPECT_EQ(record.entry(0), nullptr);
    const i64 first = record.issue(1, "first", "dp", 10, 1.0);
    for (i64 k = 2; k <= 100; ++k) {
        const i64 ticket = record.issue(k, "label." + std::to_string(k), "dp", k, 2.0);
        if (k != 100 && k != 98) {
            record.done(ticket, 3.0);
        }
    }
    record.done(first, 4.0);  // overwritten long ago: must not touch its successor
    ASSERT_NE(record.entry(0), nullptr);
    EXPECT_EQ(record.entry(0)->sequence, 100);
    EXPECT_EQ(record.entry(0)->state, FlightState::issued);
    EXPECT_EQ(record.entry(1)->state, FlightState::done);
    EXPECT_EQ(record.entry(FlightRecord::capacity - 1)->sequence, 100 - FlightRecord::capacity + 1);
    EXPECT_EQ(record.entry(FlightRecord::capacity), nullptr);
    EXPECT_EQ(record.outstanding(), "#100 'label.100' (dp, 100 B), #98 'label.98' (dp, 98 B)");
}

TEST(Flight, sizes_are_readable) {
    EXPECT_EQ(describe_collective(345, "gradients.bucket.3", "dp", 1'200'000),
              "#345 'gradients.bucket.3' (dp, 1.2 MB)");
    EXPECT_EQ(describe_collective(1, "a", "world", 999), "#1 'a' (world, 999 B)");
    EXPECT_EQ(describe_collective(1, "a", "world", 1500), "#1 'a' (world, 1.5 kB)");
    EXPECT_EQ(describe_collective(1, "a", "world", i64{5} << 30), "#1 'a' (world, 5.4 GB)");
    EXPECT_EQ(describe_collective(0, "", "", 0), "none");
}

TEST(Control, a_failure_names_rank_place_and_work) {
    const NodeMemory memory = NodeMemory::alone(Control::segment_bytes(1));
    Control control(memory.data(), place_of_rank(0, 1));
    control.set_phase(Phase::train, 12);
    const i64 ticket = control.collective_issued(345, "gradients.bucket.3", "dp", 1'200'000);
    EXPECT_EQ(
        describe_failure(control.own(), ExitCode::peer, FailureKind::died, "gone"),
        "rank 0 (host host-a, pid " + std::to_string(getpid()) +
            "), exit 6: died in phase train, step 12, last collective #345 'gradients.bucket.3' (dp, 1.2 MB): gone");
    control.collective_done(ticket);
    EXPECT_EQ(control.flight.outstanding(), "");
}

TEST(Control, tells_of_each_collective_that_is_done) {
    const NodeMemory memory = NodeMemory::alone(Control::segment_bytes(1));
    Control control(memory.data(), place_of_rank(0, 1));
    std::vector<FlightEntry> seen;
    control.observe_collectives([&](const FlightEntry& entry) { seen.push_back(entry); });
    const double before = steady_seconds();
    const i64 first = control.collective_issued(1, "first", "dp", 16);
    const i64 second = control.collective_issued(2, "second", "tp", 24);
    EXPECT_TRUE(seen.empty());
    control.collective_done(second);
    control.collective_done(first);
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_EQ(seen[0].label, "second");
    EXPECT_EQ(seen[0].axis, "tp");
    EXPECT_EQ(seen[0].bytes, 24);
    EXPECT_EQ(seen[1].label, "first");
    EXPECT_LE(before, seen[1].issued_s);
    EXPECT_LE(seen[1].issued_s, seen[0].issued_s);
    EXPECT_LE(seen[0].done_s, seen[1].done_s);
    control.observe_collectives({});
    control.collective_done(control.collective_issued(3, "third", "dp", 8));
    EXPECT_EQ(seen.size(), 2U);
}

TEST(Control, text_beyond_the_slot_is_cut_and_never_overruns) {
    const NodeMemory memory = NodeMemory::alone(Control::segment_bytes(1));
    Control control(memory.data(), place_of_rank(0, 1));
    control.collective_issued(1, std::string(500, 'x'), std::string(500, 'y'), 8);
    EXPECT_EQ(control.own().label.load(), std::string(95, 'x'));
    EXPECT_EQ(control.own().axis.load(), std::string(31, 'y'));
    EXPECT_EQ(control.own().host.load(), "host-a");
}

TEST(Control, one_of_many_claims_the_failure) {
    const NodeMemory memory = NodeMemory::alone(Control::segment_bytes(1));
    Control control(memory.data(), place_of_rank(0, 1));
    control.check();
    std::atomic<int> won{0};
    std::vector<std::thread> threads;
    for (int k = 0; k < 8; ++k) {
        threads.emplace_back([&, k] {
            won += control.claim({k, ExitCode::data, "failure " + std::to_string(k)}) ? 1 : 0;
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(won.load(), 1);
    EXPECT_EQ(control.failure().line, "failure " + std::to_string(control.failure().culprit));
    EXPECT_EQ(control.failure().code, ExitCode::data);
    try {
        control.check();
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::peer);
        EXPECT_NE(std::string(error.what()).find("failure "), std::string::npos);
    }
}

TEST(Control, a_claimer_that_died_before_its_text_is_replaced) {
    const NodeMemory memory = NodeMemory::alone(Control::segment_bytes(1));
    Control control(memory.data(), place_of_rank(0, 1));
    const pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    static_cast<NodeSegment*>(memory.data())->claimed_by.store(child);
    EXPECT_FALSE(control.failed());
    EXPECT_TRUE(control.claim({1, ExitCode::peer, "second"}));
    EXPECT_EQ(control.failure().line, "second");
    EXPECT_FALSE(control.claim({2, ExitCode::peer, "third"}));
}

TEST(Process, a_zombie_and_a_reused_number_are_gone) {
    EXPECT_FALSE(process_gone(getpid(), process_start(getpid())));
    EXPECT_TRUE(process_gone(getpid(), process_start(getpid()) + 1));
    const pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    const u64 started = process_start(child);
    EXPECT_FALSE(process_gone(child, started));
    kill(child, SIGKILL);
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);  // dead, not yet collected
    EXPECT_TRUE(process_gone(child, started));
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(process_gone(child, started));
}

TEST(Wait, ends_with_the_known_failure_and_shows_that_it_waits) {
    const NodeMemory memory = NodeMemory::alone(Control::segment_bytes(1));
    Control control(memory.data(), place_of_rank(0, 1));
    long turns = 0;
    bool shown = false;
    const auto never = [&] {
        ++turns;
        shown = shown || control.own().waiting_s.load() > 0;
        if (turns == 100) {
            control.claim({1, ExitCode::peer, "rank 1 died"});
        }
        return false;
    };
    EXPECT_THROW(wait_until(never, &control, [] { return 0L; }), Error);
    EXPECT_TRUE(shown);
}

TEST(Wait, progress_restarts_the_deadline) {
    const NodeMemory memory = NodeMemory::alone(Control::segment_bytes(1));
    Control control(memory.data(), place_of_rank(0, 1));
    long turns = 0;
    double first = 0, later = 0;
    wait_until(
        [&] {
            ++turns;
            (turns == 10 ? first : later) = control.own().waiting_s.load();
            if (turns == 20) {
                usleep(2000);
            }
            return turns > 60;
        },
        &control, [&] { return turns > 30 ? 1L : 0L; });
    EXPECT_GT(first, 0);
    EXPECT_GT(later, first + 0.001);
    EXPECT_EQ(control.own().waiting_s.load(), 0);
}

}  // namespace
}  // namespace ogrom
