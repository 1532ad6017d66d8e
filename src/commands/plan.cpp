// ogrom plan: what a run would choose and the bytes that each rank would take, from the run file and a number of ranks
// alone. Takes no memory and needs neither MPI nor the other machines.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include "src/base/text.h"
#include "src/comm/launch.h"
#include "src/comm/mesh.h"
#include "src/commands/arguments.h"
#include "src/commands/commands.h"
#include "src/commands/run_file.h"
#include "src/device/arena.h"
#include "src/device/memory.h"
#include "src/device/select.h"
#include "src/plan/decide.h"
#include "src/plan/machine.h"
#include "src/train/setup.h"
#include "src/train/throughput.h"

namespace ogrom {

namespace {

struct PlanArguments {
    std::string run_file, machine;
    std::vector<std::string> overrides;
    i64 ranks = 0;  // 0 = as many as the launcher starts
};

// --ranks, else what the launcher announces (in a shell inside salloc only the size of the job), else 1.
struct PlannedRanks {
    i64 ranks = 1;
    std::string source;  // empty: nobody said
};

PlannedRanks planned_ranks(i64 given, const LaunchFacts& facts) {
    if (given > 0) {
        return {given, "--ranks"};
    }
    if (facts.tasks.value_or(0) > 0) {
        return {*facts.tasks, facts.launcher};
    }
    const char* job = std::getenv("SLURM_NTASKS");
    const std::optional<i64> tasks = parse_integer(job == nullptr ? "" : job);
    return tasks && *tasks > 0 ? PlannedRanks{*tasks, "SLURM_NTASKS"} : PlannedRanks{};
}

// As if all ranks ran on this machine.
int planned_threads(const RunConfig& run, i64 ranks) {
    const std::string mine = affinity_mask();
    return choose_threads(wanted_threads(run), mine, std::vector<std::string>(static_cast<std::size_t>(ranks), mine));
}

// What a run would take. Of "auto" this machine's own devices decide, which may not be those of the job: the text says
// so.
struct PlannedDevice {
    Backend backend = Backend::cpu;
    std::string text;
};

PlannedDevice planned_device(const RunConfig& run) {
    if (run.run.device != "auto") {
        return {run.run.device == "cuda" ? Backend::cuda : Backend::cpu, "run.device"};
    }
    if (has_16_bits(run.precision.weights)) {
        return {Backend::cuda, fmt::format("precision.weights = \"{}\"", name_of(run.precision.weights))};
    }
    const Device here = select_device("auto", 0);
    return {here.backend,
            fmt::format("run.device = \"auto\", here: {}; \"cuda\" or \"cpu\" plan for machines of that kind",
                        here.reason)};
}

// What a measured machine says of the plan: the least time that the products of a step take at its rate.
std::string machine_text(const std::string& name_or_path, const RunConfig& run, i64 ranks, Backend planned) {
    const MachineFile machine = read_machine(machine_path(name_or_path));
    const double tokens = static_cast<double>(run.train.global_batch * run.train.sequence);
    const double flops = tokens * cost::model_flops(cost_model(run.model, run.train.sequence));
    std::string text =
        fmt::format("machine: {}, measured {}: {} products at {:.3g} Tflop/s on each rank ({})", machine.name,
                    machine.measured, machine.matmul_dtype, machine.matmul_flops / 1e12, machine.device_name);
    if (machine.matmul_flops > 0) {
        text += fmt::format("; at that rate a step of {:.4g} Tflop takes at least {:.3g} s on {} rank{}", flops / 1e12,
                            flops / machine.matmul_flops / static_cast<double>(ranks), ranks, ranks == 1 ? "" : "s");
    }
    const bool same = (machine.device == "cuda") == (planned == Backend::cuda);
    return text + (same ? "\n" : "; planned for another kind of device\n");
}

int plan_command(const PlanArguments& arguments, const PlannedRanks& planned) {
    const i64 ranks = planned.ranks;
    const RunConfig run =
        resolve_run_file(arguments.run_file, arguments.overrides, ranks, TokenSetNeed::for_vocabulary);
    require(run.model.vocab > 0, ExitCode::usage, "plan: give model.vocab, or the token set of data.train");
    const MeshShape shape = fitting_shape(run.parallel, static_cast<int>(ranks));
    const int threads = planned_threads(run, ranks);
    const PlannedDevice device = planned_device(run);
    const bool gpu = device.backend == Backend::cuda;
    const auto decisions_of = [&](int rank) {
        return decide(run, shape, place_of(rank, shape), threads, device.backend);
    };
    const auto ledger_of = [&](int rank) { return plan_ledger(run, decisions_of(rank), rank, shape.size()); };
    int largest = 0;
    const Ledger first = ledger_of(0);
    PlannedNeed need{ranks, first.total(), arena_bytes(first), run.numerics.compute};
    for (int rank = 1; rank < shape.size(); ++rank) {
        const Ledger ledger = ledger_of(rank);
        need.cut = std::max(need.cut, arena_bytes(ledger));
        if (ledger.total() > need.each) {
            need.each = ledger.total();
            largest = rank;
        }
    }
    const std::string source = planned.source.empty() ? "nobody said how many: --ranks N" : planned.source;
    std::string text =
        fmt::format("ranks: {} ({})\ndevice: {} ({})\n", ranks, source, gpu ? "cuda" : "cpu", device.text);
    text += arguments.machine.empty() ? std::string() : machine_text(arguments.machine, run, ranks, device.backend);
    text += plan_text(run, shape, decisions_of(0), first);
    const std::string of_gpu = gpu ? fmt::format(", of it {} on its GPU", human_bytes(first.on_device())) : "";
    text += fmt::format("rank 0 takes {}{}", human_bytes(first.total()), of_gpu);
    text += largest == 0 ? std::string(", no rank takes more\n")
                         : fmt::format("; rank {} takes the most, {}:\n{}", largest, human_bytes(need.each),
                                       ledger_of(largest).table());
    text += fmt::format(
        "bytes are those of {} and come without what MPI, BLAS, HDF5{} hold (measured at the start of a "
        "run){}\n",
        name_of(run.precision.weights), gpu ? " and the device's context" : "",
        gpu ? "; how much memory the GPUs of the job have is not known here"
            : "; free is the memory of this machine now");
    text += gpu ? std::string() : verdict_text(need, free_memory());
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        fail(ExitCode::checkpoint, "plan: cannot write to the standard output");
    }
    return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_plan(CLI::App& app, Invocation& chosen) {
    const auto arguments = std::make_shared<PlanArguments>();
    CLI::App* command = app.add_subcommand("plan", "What a run would choose and take, without running it");
    command->footer(
        "Example: ogrom plan inputs/runs/demo.toml --ranks 4 --set model.vocab=4096\n"
        "model.vocab is asked for where the token set of data.train, which says it otherwise, is not there. On CPUs it "
        "ends with a line that says whether all ranks fit on this machine; the exit code is 0 either way.");
    command->add_option("run_file", arguments->run_file, "run file (TOML); every key: ogrom keys")
        ->required()
        ->check(CLI::ExistingFile);
    command
        ->add_option("--ranks", arguments->ranks,
                     "ranks that would be started (default: those of mpirun or SLURM, else 1)")
        ->transform(whole_number(1));
    command->add_option("--set", arguments->overrides, "section.key=value, stronger than the file; may be repeated")
        ->take_all();
    command->add_option(
        "--machine", arguments->machine,
        "NAME or PATH of what ogrom check --write measured: the least time of a step at its matrix rate");
    command->callback([arguments, &chosen] {
        chosen.needs_session = false;
        chosen.run = [arguments](Session*) {
            // Under a launcher rank 0 plans for all; the others have nothing to say.
            const LaunchFacts facts = read_launch([](const char* name) { return std::getenv(name); }, geteuid() == 0);
            return facts.rank.value_or(0) > 0 ? static_cast<int>(ExitCode::done)
                                              : plan_command(*arguments, planned_ranks(arguments->ranks, facts));
        };
    });
}

}  // namespace ogrom
