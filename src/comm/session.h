// Lifetime of MPI and of the control plane. One per process, made first in main, passed explicitly.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "kernels/common/error.h"

#include "src/comm/communicator.h"
#include "src/comm/flight.h"

namespace ogrom {

// What a rank is doing, published for the watchdog and the error message. Cheap: one store to shared memory.
enum class Phase { start, plan, load, train, evaluate, save, report, stop, idle };
std::string_view name_of(Phase phase);

// Told the exit code and the one message of a failure, as it was printed.
using FailureHook = std::function<void(ExitCode, const std::string&)>;

class Session {
public:
    struct Options {
        double timeout_s = 120;
        bool single = false;             // commands that never need MPI (keys, data, inspect ...) do not start it
        i64 chunk_bytes = i64{1} << 30;  // most bytes of one MPI call: counts beyond int are cut (B23)
    };
    // Initialises MPI: thread level requested and checked (FUNNELED needed: one thread issues all MPI calls), error
    // handler set to return, announced task count (SLURM_NTASKS, OMPI_COMM_WORLD_SIZE, PMI_SIZE) compared with the MPI
    // world (B40), root under Open MPI, yield-when-idle for oversubscribed ranks. Starts the watchdog.
    explicit Session(const Options& options);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    [[nodiscard]] int rank() const;
    [[nodiscard]] int size() const;
    [[nodiscard]] int node_rank() const;  // rank among those that share this node's memory
    [[nodiscard]] int node_size() const;
    [[nodiscard]] int node() const;        // nodes are numbered by their lowest rank
    [[nodiscard]] i64 node_cores() const;  // that the ranks of this node may use together
    [[nodiscard]] int nodes() const;       // that have a rank of this session
    [[nodiscard]] const std::string& host() const;
    [[nodiscard]] Communicator& world();
    // A communicator over the ranks of `colour`, ordered by `key`.
    std::unique_ptr<Communicator> split(int colour, int key, const std::string& name);

    // The first `ranks` ranks as a session of their own, with its world, rank, size and place on the node; null on the
    // other ranks, which rest() meanwhile. Watchdog, signals and failures stay those of the whole: whoever fails, in
    // the part or beside it, ends the job. Collective over all ranks; nothing else of the whole may be called while the
    // part lives, but by those who rest. It ends before the whole does.
    std::unique_ptr<Session> part(int ranks);
    // Waits for `pending` without taking the core: naps of milliseconds. A rank that rests is not one that hangs: the
    // watchdog does not count it among those that should move, and still sees it die.
    void rest(Pending& pending);

    // More ranks on this node than cores that they may use together.
    [[nodiscard]] bool oversubscribed() const;

    void set_phase(Phase phase, i64 step);
    // True when SIGTERM/SIGUSR1 arrived here; the trainer agrees over all ranks at the next micro-batch.
    [[nodiscard]] bool stop_requested() const;
    [[nodiscard]] std::string stop_signal() const;  // its name; empty before any
    // Ends the job on every rank with one message; called by main's single catch.
    [[noreturn]] void abort(ExitCode code, const std::string& message);
    [[noreturn]] void abort(const Error& error);  // adds the place in our source, unless the user's input is at fault
    // `hook` is called once, in the process that prints the failure of the job (also another rank's), after the message
    // and before the process ends; perhaps by the watchdog thread while the main thread still runs, or after the stack
    // was unwound. So it owns what it uses, and does no more than append to a file. An empty one takes it back.
    void on_failure(FailureHook hook);
    // What every axis carries, as it completes (train.trace). An empty one takes it back.
    void observe_collectives(CollectiveObserver observer);
    // Of the time that this rank's thread gave to communication instead of its work. An empty one takes it back.
    void observe_waits(WaitObserver observer);

private:
    struct Impl;
    explicit Session(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// Before a Session exists every rank meets the same fault (run file, launch): true on the rank that is to print it,
// by the rank that the launcher announced in the environment; true when nothing was announced.
bool prints_for_launch();
// What the other ranks do before they end: the launcher ends all of them once one has ended, and the one that prints
// must have come to it. Two seconds, unless the launcher is quicker.
void let_it_print();

}  // namespace ogrom
