// What the launcher said about this process, read from the environment, and whether MPI agrees (field case B40: srun
// without the right PMI plug-in starts N independent one-process jobs, each "rank 0 of 1").
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace ogrom {

struct LaunchFacts {
    std::string launcher;             // "mpirun (Open MPI)", "srun", ...; empty = nothing announced
    std::optional<long> tasks;        // announced size of the world
    std::optional<long> rank;         // announced rank
    std::optional<long> local_tasks;  // announced ranks on this node
    bool step_without_pmi = false;    // several tasks of a SLURM step that offers no PMI: MPI_Init itself would fail
    bool root_allowed = true;         // false: root without Open MPI's two permissions
};

using Environment = std::function<const char*(const char*)>;  // getenv, or a fake in tests

LaunchFacts read_launch(const Environment& environment, bool is_root);

// The refusal when the launcher announced another number of tasks than MPI sees; empty when they agree.
std::string launch_refusal(const LaunchFacts& facts, long world_size);

// The process among our ancestors that launched the ranks (mpirun, orted, prted, slurmstepd, hydra); 0 = none.
struct Launcher {
    int pid = 0;
    unsigned long long started = 0;
    std::string name;
};
Launcher find_launcher();

}  // namespace ogrom
