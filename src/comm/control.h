// What the ranks of one node know of each other without MPI: one slot per rank in shared memory, and one verdict. The
// main thread of a rank writes what it does; the watchdog threads read. A rank inside BLAS, HDF5 or a blocked call is
// still seen, and the first failure found is claimed once, so that one message comes out of many ranks.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/common/error.h"
#include "kernels/common/extents.h"

#include "src/comm/flight.h"
#include "src/comm/session.h"

namespace ogrom {

double steady_seconds();  // the machine's monotonic clock, the same on all ranks of a node

// Text in shared memory as relaxed atomic words: a torn read gives mixed letters, never undefined behaviour.
template <int Words>
class SharedText {
public:
    static constexpr std::size_t bytes = Words * sizeof(u64) - 1;
    void store(std::string_view text);
    [[nodiscard]] std::string load() const;

private:
    std::array<std::atomic<u64>, Words> words_;
};

// resting: alive, and not meant to move (Session::rest).
enum class RankState : int { empty, running, finishing, finished, failed, resting };

struct RankSlot {
    std::atomic<int> pid, world_rank;
    std::atomic<u64> started;  // start time of the process in ticks (guards against a reused pid)
    std::atomic<RankState> state;
    std::atomic<u64> watchdog_beat;  // counts up while the process runs
    std::atomic<double> moved_s;     // last sign of life of the main thread
    std::atomic<double> waiting_s;   // since when it waits without progress in a collective; 0 = it does not
    std::atomic<Phase> phase;
    std::atomic<i64> step;
    std::atomic<i64> sequence, bytes;  // last collective
    SharedText<12> label;
    SharedText<4> axis;
    SharedText<9> host;
};

struct NodeSegment {
    std::atomic<int> ranks;
    std::atomic<int> claimed_by;  // pid of the process that found the failure; 0 = none
    std::atomic<int> complete;    // 1 once code and text are valid
    std::atomic<int> code;
    std::atomic<int> culprit;  // world rank, -1 = not a rank
    SharedText<512> text;
    // RankSlot[ranks] follow
};

enum class FailureKind { died, failed, silent, stalled };

struct Failure {
    int culprit = -1;
    ExitCode code = ExitCode::peer;
    std::string line;  // the one message, without the end of line
};

// "rank 2 (host h, pid p), exit 6: died in phase train, step 12, last collective #345 'x' (dp, 1.2 MB): reason"
std::string describe_failure(const RankSlot& slot, ExitCode code, FailureKind kind, std::string_view reason);
std::string describe_failure(std::string_view rank, ExitCode code, FailureKind kind, std::string_view work,
                             std::string_view reason);
std::string describe_rank(const RankSlot& slot);  // "rank 2 (host h, pid p)"
std::string describe_work(const RankSlot& slot);  // "phase train, step 12, last collective #345 'x' (dp, 1.2 MB)"

class Control {
public:
    struct Place {
        int world_rank = 0, node_rank = 0, node_size = 1, node = 0, nodes = 1;
        std::string host;
        i64 cores = 1;                // that ranks of this node may use
        bool oversubscribed = false;  // more ranks than cores on this node
    };
    static i64 segment_bytes(int ranks);
    // `memory` holds segment_bytes(place.node_size) zero bytes, shared by the node's ranks; it must outlive this.
    Control(void* memory, const Place& place);

    [[nodiscard]] const Place& place() const { return place_; }
    [[nodiscard]] RankSlot& slot(int node_rank) const { return slots_[node_rank]; }
    [[nodiscard]] RankSlot& own() const { return slots_[place_.node_rank]; }
    FlightRecord flight;  // of the main thread only

    // Main thread.
    void set_phase(Phase phase, i64 step);
    void moved() { own().moved_s.store(steady_seconds(), std::memory_order_relaxed); }
    i64 collective_issued(i64 sequence, std::string_view label, std::string_view axis, i64 bytes);
    void collective_done(i64 ticket);
    void observe_collectives(CollectiveObserver observer) { observer_ = std::move(observer); }
    void observe_waits(WaitObserver observer) { wait_observer_ = std::move(observer); }
    // The thread gave its time since `begin_s` to the operation of `ticket` on `axis`.
    void note_wait(i64 ticket, std::string_view axis, double begin_s);
    [[nodiscard]] bool notes_waits() const { return static_cast<bool>(wait_observer_); }
    // Where a part of the ranks runs and the rest of them rest.
    void set_oversubscribed(bool oversubscribed) { place_.oversubscribed = oversubscribed; }
    void waiting_since(double seconds) { own().waiting_s.store(seconds, std::memory_order_relaxed); }
    void check() const;  // throws Error(peer) once a failure is known on this node

    // Any thread. Publishes the failure unless one is known; true for the one caller whose failure it became.
    bool claim(const Failure& failure);
    [[nodiscard]] bool failed() const { return segment_->complete.load(std::memory_order_acquire) != 0; }
    [[nodiscard]] Failure failure() const;  // valid once failed()
    // Claims; when the failure became ours and this process is on `node`, prints it. True as claim().
    bool claim_and_print(const Failure& failure, int node);
    // Called once by the process that printed the failure: by whichever of its threads first calls finish_failure(),
    // which every one of them does before it ends the process. The others wait for it, two seconds at most.
    void set_failure_hook(FailureHook hook);
    void finish_failure();

private:
    std::timed_mutex
        telling_;  // guards the two below, and holds the exit back while a message or the hook is under way
    bool printed_ = false;
    CollectiveObserver observer_;  // of the main thread only
    WaitObserver wait_observer_;   // the same
    FailureHook hook_;
    Place place_;
    NodeSegment* segment_;
    RankSlot* slots_;
};

// Process state from /proc, for a pid on this machine.
u64 process_start(int pid);               // 0 = no such process (or a zombie)
bool process_gone(int pid, u64 started);  // ended, a zombie, or the pid belongs to another process now

// One write to standard error of `ogrom: <line>\n`; never blocks on a closed reader.
void print_message(std::string_view line);

}  // namespace ogrom
