// A small job for the launch and kill cases: `probe MODE [RANK] [TIMEOUT_S]`. MODE says what RANK does wrong at step 3.
//   loop      every rank reduces until killed or signalled (exit 75 by agreement on SIGTERM)
//   throw     RANK throws Error(data); throw_all: every rank does; unwind: an exception passes the session's owner
//   vanish    RANK ends without a word; leave: RANK returns from main as if done
//   mismatch  RANK uses another label; mismatch_kind: RANK reduces to a root in place of all; mismatch_root: RANK names
//             another root; mismatch_message: RANK sends more to the next than that receives; mismatch_message_label
//   part      the first half of the ranks is a session of its own and goes on until killed or signalled, the others
//   rest; part_stall  in it RANK waits for a message that nobody sends busy      RANK computes for 3 s; finish: nothing
//   goes wrong; cores: prints whether the ranks outnumber their cores late      RANK leaves before MPI starts
// PROBE_STAGED=1: the data axis is staged, on CPU streams.
// PROBE_PIDS=DIR writes DIR/RANK with the process id; PROBE_EVENTS=FILE has failures appended to FILE, each with
// its wall-clock time in front; PROBE_PROVIDED=N makes MPI report that thread level (B46).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "src/comm/mesh.h"
#include "src/comm/mpi_check.h"
#include "src/comm/session.h"

// In place of MPI's own: what the library reports can be lowered.
extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
    const int result = PMPI_Init_thread(argc, argv, required, provided);
    if (const char* level = std::getenv("PROBE_PROVIDED")) {
        *provided = std::atoi(level);
    }
    return result;
}

namespace {

using namespace ogrom;

void spin(double seconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < until) {
    }
}

void write_pid(int rank) {
    if (const char* folder = std::getenv("PROBE_PIDS")) {
        std::ofstream(std::string(folder) + "/" + std::to_string(rank)) << getpid() << "\n";
    }
}

// Appends one line with the time in front.
void record(const std::string& text) {
    if (const char* file = std::getenv("PROBE_EVENTS")) {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        std::ofstream(file, std::ios::app)
            << std::chrono::duration_cast<std::chrono::milliseconds>(now).count() << " " << text << "\n";
    }
}

// What `rank` does at step 3; true ends the loop.
bool misbehave(Session& session, const std::string& mode, std::string& label) {
    if (mode == "throw") {
        fail(ExitCode::data, "document 17 is broken");
    }
    if (mode == "unwind") {
        throw 42;
    }
    if (mode == "vanish") {
        _exit(0);
    }
    if (mode == "mismatch") {
        label = "probe.other";
    }
    if (mode == "busy") {
        session.set_phase(Phase::evaluate, 3);
        spin(3);
    }
    return mode == "leave";
}

// Step 3 of the modes in which all ranks make another call than in the other steps.
void differ(Session& session, const Mesh& mesh, const std::string& mode, int culprit, std::vector<double>& data) {
    const int rank = session.rank(), next = (culprit + 1) % session.size();
    const bool wrong = rank == culprit;
    const std::string label = wrong && mode == "mismatch_message_label" ? "probe.other" : "probe.activations";
    if (mode == "mismatch_kind" && wrong) {
        mesh.dp->reduce(data.data(), 99, Dtype::fp64, 0, ReduceOrder::any, nullptr, "probe.sum").wait();
    } else if (mode == "mismatch_kind") {
        mesh.dp->all_reduce(data.data(), 99, Dtype::fp64, ReduceOp::sum, ReduceOrder::any, nullptr, "probe.sum").wait();
    } else if (mode == "mismatch_root") {
        mesh.dp->reduce(data.data(), 99, Dtype::fp64, wrong ? 1 : 0, ReduceOrder::any, nullptr, "probe.sum").wait();
    } else if (wrong) {
        const i64 count = mode == "mismatch_message" ? 20'000 : 10'000;
        session.world().send(data.data(), count, Dtype::fp64, next, label).wait();
    } else if (rank == next) {
        session.world().receive(data.data(), 10'000, Dtype::fp64, culprit, label).wait();
    }
}

int work_in_part(Session& session, const std::string& mode, int culprit) {
    std::unique_ptr<Session> part = session.part(std::max(1, session.size() / 2));
    const bool ran = part != nullptr;
    write_pid(session.rank());
    for (i64 step = 1; part != nullptr; ++step) {
        part->set_phase(Phase::train, step);
        if (step == 3 && mode == "part_stall" && part->rank() == culprit) {
            double never = 0;
            part->world().receive(&never, 1, Dtype::fp64, 0, "probe.never").wait();
        }
        part->world().barrier("probe.part").wait();
        if (agree_max(part->world(), part->stop_requested() ? 1 : 0, "probe.stop") != 0) {
            part.reset();
        }
        usleep(10'000);
    }
    Pending met = session.world().barrier("probe.met");
    if (ran) {
        met.wait();
    } else {
        session.rest(met);
    }
    return static_cast<int>(ExitCode::saved_for_requeue);
}

int work(Session& session, const std::string& mode, int culprit) {
    session.on_failure(
        [](ExitCode code, const std::string& text) { record(std::to_string(static_cast<int>(code)) + " " + text); });
    if (mode == "cores") {
        std::printf("rank %d oversubscribed %d\n", session.rank(), session.oversubscribed() ? 1 : 0);
        return 0;
    }
    if (mode.starts_with("part")) {
        return work_in_part(session, mode, culprit);
    }
    ParallelConfig parallel;
    parallel.data = session.size();
    MeshOptions options;
    options.axes.transport = std::getenv("PROBE_STAGED") != nullptr ? AxisTransport::staged : AxisTransport::host;
    const Mesh mesh = make_mesh(session, parallel, options);
    std::vector<double> data(20'000, 1.0), scratch(20'000 + 8);
    write_pid(session.rank());
    const i64 steps = mode == "loop" ? 100'000 : 12;
    for (i64 step = 1; step <= steps; ++step) {
        session.set_phase(Phase::train, step);
        std::string label = "probe.bucket";
        if (step == 3 && mode == "throw_all") {
            fail(ExitCode::usage, "run.toml:3: model.layers is wrong everywhere");
        }
        if (step == 3 && mode.starts_with("mismatch_")) {
            differ(session, mesh, mode, culprit, data);
        }
        if (step == 3 && session.rank() == culprit && misbehave(session, mode, label)) {
            return 0;
        }
        mesh.dp
            ->all_reduce(data.data(), 20'000, Dtype::fp64, ReduceOp::max,
                         step % 2 == 0 ? ReduceOrder::any : ReduceOrder::fixed, scratch.data(), label)
            .wait();
        if (agree_max(session.world(), session.stop_requested() ? 1 : 0, "probe.stop") != 0) {
            return static_cast<int>(ExitCode::saved_for_requeue);
        }
        usleep(10'000);
    }
    return 0;
}

// As in main.cpp: the single catch ends the job on every rank. What is no std::exception passes the session.
int job(const std::string& mode, int culprit, double timeout_s) {
    std::unique_ptr<Session> session;
    try {
        session = std::make_unique<Session>(Session::Options{.timeout_s = timeout_s});
        return work(*session, mode, culprit);
    } catch (const Error& error) {
        if (session != nullptr) {
            session->abort(error);
        }
        if (prints_for_launch()) {
            std::fprintf(stderr, "ogrom: %s\n", error.what());
        } else {
            let_it_print();
        }
        return static_cast<int>(error.code());
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "finish";
    const int culprit = argc > 2 ? std::atoi(argv[2]) : -1;
    const char* announced = std::getenv("OMPI_COMM_WORLD_RANK");
    if (mode == "late" && announced != nullptr && std::atoi(announced) == culprit) {
        std::fprintf(stderr, "ogrom: left before MPI\n");
        return static_cast<int>(ExitCode::data);
    }
    try {
        return job(mode, culprit, argc > 3 ? std::atof(argv[3]) : 20);
    } catch (int) {
        return 1;
    }
}
