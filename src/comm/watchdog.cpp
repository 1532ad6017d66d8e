#include "src/comm/watchdog.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "src/comm/link_watch.h"
#include "src/comm/signals.h"

namespace ogrom {
namespace {

// Start-up loads programs and wires nodes: on a loaded machine it is slow where a running rank would not be silent.
constexpr double least_start_s = 120;

constexpr int poll_ms = 50;
constexpr double grace_s = 1.0;    // for the message to leave and the main thread to unwind
constexpr double leaving_s = 4.0;  // for Session::abort, which ends the process itself

struct Watched {
    Descriptor process;  // readable once the process has ended; empty where the kernel has no pidfd
    u64 beat = 0;
    double seen_s = 0;   // when the beat last changed, by our clock
    double noted_s = 0;  // the sign of life that a note was already printed for
};

bool alive_state(RankState state) {
    return state == RankState::running || state == RankState::finishing || state == RankState::resting;
}

// Should move or wait for someone who does.
bool works(RankState state) {
    return state == RankState::running || state == RankState::finishing;
}

}  // namespace

struct Watchdog::Impl {
    double timeout_s;
    Launcher launcher = find_launcher();
    double started_s = steady_seconds();
    double last_turn_s = started_s;
    double failed_s = 0;
    bool prints_start = prints_for_launch();
    std::atomic<bool> stop{false}, leaving{false};
    Descriptor wake{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::mutex mutex;  // guards what attach() hands over
    std::shared_ptr<Control> control;
    std::unique_ptr<LinkWatch> links;
    std::vector<Watched> ranks;
    std::thread thread;

    explicit Impl(double timeout) : timeout_s(timeout) {}

    void run() {
        block_signals_in_this_thread();
        while (!stop.load()) {
            pause();
            const std::scoped_lock lock(mutex);
            turn();
        }
    }

    void pause() {
        std::vector<pollfd> entries{{wake.get(), POLLIN, 0}};
        {
            const std::scoped_lock lock(mutex);
            for (std::size_t i = 0; control != nullptr && !control->failed() && i < ranks.size(); ++i) {
                if (ranks[i].process && alive_state(control->slot(static_cast<int>(i)).state.load())) {
                    entries.push_back({ranks[i].process.get(), POLLIN, 0});
                }
            }
            if (control != nullptr && !control->failed()) {
                links->add_descriptors(entries);
            }
        }
        poll(entries.data(), entries.size(), poll_ms);
    }

    void turn() {
        const double now = steady_seconds();
        if (now - last_turn_s > 1) {  // this process was stopped: what it missed is not the others' silence
            for (Watched& other : ranks) {
                other.seen_s = now;
            }
            if (links != nullptr) {
                links->forgive(now);
            }
            started_s += now - last_turn_s;
        }
        last_turn_s = now;
        if (control == nullptr) {
            watch_start(now);
            return;
        }
        control->own().watchdog_beat.fetch_add(1, std::memory_order_relaxed);
        if (!control->failed()) {
            watch_ranks(now);
            watch_launcher();
        }
        links->turn(now);
        if (!control->failed()) {
            watch_stall(now);
        }
        end_if_failed(now);
    }

    void watch_start(double now) {
        std::string line;
        ExitCode code = ExitCode::peer;
        if (stop_signalled()) {
            code = ExitCode::saved_for_requeue;  // nothing was trained yet: what a requeue resumes from is as it was
            line = "stopped by a signal during MPI start-up";
            // The launcher passes an end on: by the user, or after another rank that has said why.
            prints_start = prints_start && stop_sender() != launcher.pid;
        } else if (launcher.pid != 0 && process_gone(launcher.pid, launcher.started)) {
            line = fmt::format("the launcher {} (pid {}) is gone during MPI start-up", launcher.name, launcher.pid);
        } else if (now - started_s > std::max(timeout_s, least_start_s)) {
            line = fmt::format("MPI start-up did not complete within {} s: a rank did not come",
                               std::max(timeout_s, least_start_s));
        }
        if (!line.empty()) {
            if (prints_start) {
                print_message(fmt::format("exit {}: {}", static_cast<int>(code), line));
            } else if (code == ExitCode::peer) {
                let_it_print();
            }
            _exit(static_cast<int>(code));
        }
    }

    void report(const RankSlot& slot, FailureKind kind, const std::string& reason) {
        links->claim({slot.world_rank.load(), ExitCode::peer, describe_failure(slot, ExitCode::peer, kind, reason)});
    }

    void watch_ranks(double now) {
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            const RankSlot& slot = control->slot(static_cast<int>(i));
            if (static_cast<int>(i) == control->place().node_rank || !alive_state(slot.state.load())) {
                continue;
            }
            Watched& other = ranks[i];
            if (ended(other, slot)) {
                // Its last act may have been to finish: the state is final now that the process is.
                if (alive_state(slot.state.load())) {
                    report(slot, FailureKind::died,
                           "its process ended without finishing (killed, out of memory or crashed)");
                }
                continue;
            }
            const u64 beat = slot.watchdog_beat.load(std::memory_order_relaxed);
            if (beat != other.beat) {
                other.beat = beat;
                other.seen_s = now;
            } else if (now - other.seen_s > timeout_s) {
                report(slot, FailureKind::silent, fmt::format("no sign of life for {} s (stopped or hung)", timeout_s));
            }
        }
    }

    static bool ended(const Watched& other, const RankSlot& slot) {
        if (!other.process) {
            return process_gone(slot.pid.load(), slot.started.load());
        }
        pollfd entry{other.process.get(), POLLIN, 0};
        return poll(&entry, 1, 0) > 0;
    }

    void watch_launcher() {
        if (launcher.pid != 0 && process_gone(launcher.pid, launcher.started)) {
            links->claim({-1, ExitCode::peer,
                          fmt::format("{}, exit {}: the launcher {} (pid {}) is gone; its ranks end",
                                      describe_rank(control->own()), static_cast<int>(ExitCode::peer), launcher.name,
                                      launcher.pid)});
        }
    }

    // For how long every rank of this node has waited in a collective without progress; none of them in silence: one
    // that was stopped while it waited is found by watch_ranks, and named.
    [[nodiscard]] double stalled(double now) const {
        if (!alive_state(control->own().state.load())) {
            return 0;  // this rank is done: nothing here waits for anyone
        }
        double least = now;  // a node whose ranks all rest keeps no other from being found stalled
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            const RankSlot& slot = control->slot(static_cast<int>(i));
            if (works(slot.state.load())) {
                const bool here = static_cast<int>(i) == control->place().node_rank;
                const bool quiet = !here && now - ranks[i].seen_s > timeout_s / 4;
                const double since = slot.waiting_s.load(std::memory_order_relaxed);
                least = std::min(least, quiet || since == 0 ? 0 : now - since);
            }
        }
        return least;
    }

    // A long computation or a slow disk is no failure, but whoever waits for it should know: one note each time a rank
    // of this node keeps another waiting for longer than the timeout.
    void note_busy(double now) {
        double longest = 0;
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            const double since = control->slot(static_cast<int>(i)).waiting_s.load(std::memory_order_relaxed);
            longest = std::max(longest, since == 0 ? 0 : now - since);
        }
        for (std::size_t i = 0; i < ranks.size() && longest > timeout_s; ++i) {
            const RankSlot& slot = control->slot(static_cast<int>(i));
            const double moved = slot.moved_s.load(std::memory_order_relaxed);
            if (works(slot.state.load()) && slot.waiting_s.load() == 0 && now - moved > timeout_s &&
                moved != ranks[i].noted_s) {
                ranks[i].noted_s = moved;
                print_message(fmt::format("note: {} is busy in {} for {:.0f} s and keeps others waiting",
                                          describe_rank(slot), describe_work(slot), now - moved));
            }
        }
    }

    void watch_stall(double now) {
        if (control->place().node_rank != 0) {
            return;
        }
        note_busy(now);
        const double here = stalled(now);
        links->beat(now, here);
        if (control->place().node != 0 || std::min(here, links->least_stalled()) <= timeout_s) {
            return;
        }
        const RankSlot* behind = &control->slot(0);
        std::string others;
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            const RankSlot& slot = control->slot(static_cast<int>(i));
            if (slot.state.load() == RankState::resting) {
                continue;
            }
            if (slot.sequence.load() < behind->sequence.load()) {
                behind = &slot;
            }
            if (i < 8) {
                others += fmt::format(
                    "{}rank {} {} {}", i == 0 ? "" : ", ", slot.world_rank.load(),
                    slot.state.load() == RankState::finishing ? "has left after" : "waits in",
                    describe_collective(slot.sequence.load(), slot.label.load(), slot.axis.load(), slot.bytes.load()));
            }
        }
        report(*behind, FailureKind::stalled,
               fmt::format("no rank has moved for {} s: {}; OGROM_CHECK_COLLECTIVES=1 (or comm.check_collectives) "
                           "names the first difference",
                           timeout_s, others));
    }

    void end_if_failed(double now) {
        if (!control->failed()) {
            return;
        }
        if (failed_s == 0) {
            failed_s = now;
            control->finish_failure();
        }
        if (now - failed_s > (leaving.load() ? leaving_s : grace_s)) {
            _exit(static_cast<int>(control->failure().code));
        }
    }
};

Watchdog::Watchdog(double timeout_s) : impl_(std::make_unique<Impl>(timeout_s)) {
    impl_->thread = std::thread([this] { impl_->run(); });
}

Watchdog::~Watchdog() {
    impl_->stop.store(true);
    const u64 one = 1;
    if (write(impl_->wake.get(), &one, sizeof(one)) < 0) {
        std::perror("ogrom: eventfd");  // the thread still sees the flag at its next turn
    }
    impl_->thread.join();
}

void Watchdog::attach(std::shared_ptr<Control> control, Links links) {
    const std::scoped_lock lock(impl_->mutex);
    const double now = steady_seconds();
    for (int i = 0; i < control->place().node_size; ++i) {
        Watched other;
        other.seen_s = now;
        if (i != control->place().node_rank) {
            other.process.reset(static_cast<int>(syscall(SYS_pidfd_open, control->slot(i).pid.load(), 0)));
        }
        impl_->ranks.push_back(std::move(other));
    }
    impl_->links =
        std::make_unique<LinkWatch>(*control, std::move(links.ends), links.token, links.hub_ranks, impl_->timeout_s);
    impl_->control = std::move(control);
}

void Watchdog::leaving() {
    impl_->leaving.store(true);
}

void Watchdog::say_goodbye() {
    const std::scoped_lock lock(impl_->mutex);
    if (impl_->links != nullptr) {
        impl_->links->say_goodbye();
    }
}

}  // namespace ogrom
