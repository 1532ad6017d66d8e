#include "src/comm/launch.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <string_view>
#include <thread>
#include <unistd.h>

#include "src/comm/control.h"

namespace ogrom {
namespace {

constexpr long first_special_step = 4'294'967'280;  // above: a batch script and the like, no step of srun

std::optional<long> number(const Environment& environment, const char* name) {
    const char* text = environment(name);
    if (text == nullptr || *text == 0) {
        return std::nullopt;
    }
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    return *end == 0 && value >= 0 ? std::optional<long>(value) : std::nullopt;
}

bool set_to_one(const Environment& environment, const char* name) {
    const char* text = environment(name);
    return text != nullptr && std::string_view(text) == "1";
}

// A job step, or a batch script's own shell (which SLURM calls process 0 of the job). A shell inside salloc has task
// counts but no process number: what runs there directly is meant to be one process.
void read_slurm(const Environment& environment, LaunchFacts& facts) {
    const std::optional<long> process = number(environment, "SLURM_PROCID");
    if (!process) {
        return;
    }
    std::optional<long> tasks = number(environment, "SLURM_STEP_NUM_TASKS");
    if (!tasks) {
        tasks = number(environment, "SLURM_NTASKS");
    }
    if (!tasks) {
        tasks = number(environment, "SLURM_NPROCS");
    }
    facts.launcher = "SLURM";
    facts.rank = process;
    facts.tasks = tasks;
    const std::optional<long> step = number(environment, "SLURM_STEP_ID");
    const auto given = [&](const char* name) { return environment(name) != nullptr; };
    const bool offered = given("PMIX_RANK") || given("PMIX_NAMESPACE") || given("PMI_RANK") || given("PMI_FD");
    facts.step_without_pmi = step && *step < first_special_step && tasks.value_or(1) > 1 && !offered;
}

// Parent and name of a process; false when it is gone.
bool parent_of(int pid, int& parent, std::string& name) {
    std::FILE* file = std::fopen(fmt::format("/proc/{}/stat", pid).c_str(), "re");
    if (file == nullptr) {
        return false;
    }
    std::array<char, 512> text{};
    const std::size_t size = std::fread(text.data(), 1, text.size() - 1, file);
    std::fclose(file);
    text[size] = 0;
    const char* open = std::strchr(text.data(), '(');
    const char* close = std::strrchr(text.data(), ')');
    if (open == nullptr || close == nullptr || close < open) {
        return false;
    }
    name.assign(open + 1, close);
    return std::sscanf(close + 1, " %*c %d", &parent) == 1;
}

}  // namespace

LaunchFacts read_launch(const Environment& environment, bool is_root) {
    LaunchFacts facts;
    facts.root_allowed = !is_root || (set_to_one(environment, "OMPI_ALLOW_RUN_AS_ROOT") &&
                                      set_to_one(environment, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"));
    // The innermost launcher wins: mpirun inside a SLURM job announces its own ranks.
    if (const auto tasks = number(environment, "OMPI_COMM_WORLD_SIZE")) {
        facts.launcher = "mpirun (Open MPI)";
        facts.tasks = tasks;
        facts.rank = number(environment, "OMPI_COMM_WORLD_RANK");
        facts.local_tasks = number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE");
        return facts;
    }
    if (const auto tasks = number(environment, "MV2_COMM_WORLD_SIZE")) {
        facts.launcher = "mpirun (MVAPICH2)";
        facts.tasks = tasks;
        facts.rank = number(environment, "MV2_COMM_WORLD_RANK");
        return facts;
    }
    if (const auto tasks = number(environment, "PMI_SIZE")) {
        facts.launcher = "a PMI launcher (MPICH's mpiexec, or srun --mpi=pmi2)";
        facts.tasks = tasks;
        facts.rank = number(environment, "PMI_RANK");
        return facts;
    }
    read_slurm(environment, facts);
    if (!facts.tasks) {
        if (const auto rank = number(environment, "PMIX_RANK"); rank && *rank > 0) {
            facts.launcher = "a PMIx launcher";
            facts.rank = rank;
            facts.tasks = *rank + 1;  // at least
        }
    }
    return facts;
}

std::string launch_refusal(const LaunchFacts& facts, long world_size) {
    if (!facts.tasks || *facts.tasks == world_size ||
        (facts.launcher == "a PMIx launcher" && *facts.tasks < world_size)) {
        return {};
    }
    std::string text = fmt::format(
        "the launcher {} announces {} tasks, but MPI sees {}: every process would train alone "
        "into one output directory. ",
        facts.launcher, *facts.tasks, world_size);
    if (facts.launcher == "SLURM") {
        text +=
            "Start it with `srun --mpi=pmix -n N` (`srun --mpi=list` shows what this SLURM offers) or, inside the "
            "job, with `mpirun -n N`. If one process is meant, say so: `mpirun -n 1`";
    } else {
        text +=
            "Start it with the mpirun of the Open MPI that this binary is linked to, `mpirun -n N`, or with `srun "
            "--mpi=pmix -n N`";
    }
    if (!facts.root_allowed) {
        text +=
            ". As root, Open MPI's mpirun also needs OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
            "(or --allow-run-as-root)";
    }
    return text;
}

Launcher find_launcher() {
    constexpr std::array<std::string_view, 8> names = {"mpirun", "mpiexec",    "orterun",         "orted",
                                                       "prte",   "slurmstepd", "hydra_pmi_proxy", "prun"};
    int pid = getppid();
    for (int depth = 0; depth < 16 && pid > 1; ++depth) {
        int parent = 0;
        std::string name;
        if (!parent_of(pid, parent, name)) {
            break;
        }
        for (const std::string_view known : names) {
            if (name.starts_with(known)) {  // mpirun.openmpi, prted, prterun
                return {pid, process_start(pid), name};
            }
        }
        pid = parent;
    }
    return {};
}

bool prints_for_launch() {
    const LaunchFacts facts = read_launch([](const char* name) { return std::getenv(name); }, geteuid() == 0);
    if (!facts.rank && !facts.tasks) {
        return true;
    }
    return !facts.rank || *facts.rank == 0;
}

void let_it_print() {
    std::this_thread::sleep_for(std::chrono::seconds(2));
}

}  // namespace ogrom
