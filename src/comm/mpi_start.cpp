// Comes in: the process as the launcher made it. Goes out: MPI, with one message where the launch is refused.
// Next: comm/session.cpp
#include "src/comm/mpi_start.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "src/comm/affinity.h"
#include "src/comm/launch.h"

namespace ogrom {
namespace {

std::string_view name_of_level(int level) {
    switch (level) {
        case MPI_THREAD_SINGLE:
            return "SINGLE";
        case MPI_THREAD_FUNNELED:
            return "FUNNELED";
        case MPI_THREAD_SERIALIZED:
            return "SERIALIZED";
        default:
            return "MULTIPLE";
    }
}

// Before MPI the launcher's cores stand for those of all its ranks on this node: a rank may be bound to one of them.
bool launched_oversubscribed(long ranks) {
    const Launcher launcher = find_launcher();
    const CpuMask masks[] = {allowed_cpus(0), launcher.pid != 0 ? allowed_cpus(launcher.pid) : CpuMask{}};
    return ranks > count_cpus(masks);
}

}  // namespace

int pretended_nodes() {
    const char* text = std::getenv("OGROM_TEST_NODE_SPLIT");
    return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

i64 count_node_cores(MPI_Comm node, int ranks) {
    const CpuMask own = allowed_cpus(0);
    std::vector<CpuMask> masks(static_cast<std::size_t>(ranks));
    OGROM_MPI(MPI_Allgather(own.data(), sizeof(CpuMask), MPI_BYTE, masks.data(), sizeof(CpuMask), MPI_BYTE, node));
    return count_cpus(masks);
}

void start_mpi() {
    const LaunchFacts facts = read_launch([](const char* name) { return std::getenv(name); }, geteuid() == 0);
    if (launched_oversubscribed(facts.local_tasks.value_or(1))) {
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);  // the user's own setting stays
    }
    // Operations of several axes wait on the device at the same time, each in a stream of its own; with the default of
    // 8 hardware queues one can stand behind another that waits for it. Read when the GPU is first used.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    int finalized = 0;
    OGROM_MPI(MPI_Finalized(&finalized));
    require(finalized == 0, ExitCode::peer, "a process can start MPI only once");
    // Open MPI ends a process within MPI_Init there, with pages of advice and no word of ours.
    require(!facts.step_without_pmi, ExitCode::usage, launch_refusal(facts, 1));
    int provided = MPI_THREAD_SINGLE;
    OGROM_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
    return_errors(MPI_COMM_WORLD);
    return_errors(MPI_COMM_SELF);
    int size = 0;
    OGROM_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    std::string refusal = launch_refusal(facts, size);
    if (refusal.empty() && provided < MPI_THREAD_FUNNELED) {
        refusal = fmt::format(
            "MPI gives thread level {}, but FUNNELED is needed: the watchdog, OpenMP and input threads "
            "run beside the one that calls MPI. Use an MPI library built with thread support",
            name_of_level(provided));
    }
    if (!refusal.empty()) {
        MPI_Finalize();
        fail(ExitCode::usage, refusal);
    }
}

MPI_Comm split_node(int rank) {
    MPI_Comm shared = MPI_COMM_NULL, node = MPI_COMM_NULL;
    OGROM_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &shared));
    return_errors(shared);
    struct stat space = {};
    int colour = stat("/proc/self/ns/pid", &space) == 0 ? static_cast<int>(space.st_ino & 0x3fffffff) : 0;
    int local = 0, locals = 1;
    OGROM_MPI(MPI_Comm_rank(shared, &local));
    OGROM_MPI(MPI_Comm_size(shared, &locals));
    if (const int nodes = pretended_nodes(); nodes > 1) {
        colour = local * nodes / locals;
    }
    OGROM_MPI(MPI_Comm_split(shared, colour, rank, &node));
    return_errors(node);
    OGROM_MPI(MPI_Comm_free(&shared));
    return node;
}

}  // namespace ogrom
