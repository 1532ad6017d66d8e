// ogrom plan: what a run would choose and the bytes that each rank would take, from the run file and a number of ranks
// alone. Takes no memory and needs neither MPI nor the other machines.
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <vector>

#include "src/base/text.h"
#include "src/comm/mesh.h"
#include "src/commands/arguments.h"
#include "src/commands/commands.h"
#include "src/commands/run_file.h"
#include "src/device/memory.h"
#include "src/device/select.h"
#include "src/plan/decide.h"
#include "src/train/setup.h"

namespace ogrom {

namespace {

struct PlanArguments {
    std::string run_file;
    std::vector<std::string> overrides;
    i64 ranks = 1;
};

// As if all ranks ran on this machine.
int planned_threads(const RunConfig& run, i64 ranks) {
    const std::string mine = affinity_mask();
    return choose_threads(wanted_threads(run), mine, std::vector<std::string>(static_cast<std::size_t>(ranks), mine));
}

int plan_command(const PlanArguments& arguments) {
    const RunConfig run =
        resolve_run_file(arguments.run_file, arguments.overrides, arguments.ranks, TokenSetNeed::for_vocabulary);
    require(run.model.vocab > 0, ExitCode::usage, "plan: give model.vocab, or the token set of data.train");
    const MeshShape shape = fitting_shape(run.parallel, static_cast<int>(arguments.ranks));
    const int threads = planned_threads(run, arguments.ranks);
    const bool gpu = run.run.device == "cuda" || run.precision.weights == Dtype::bf16;
    const auto decisions_of = [&](int rank) {
        return decide(run, shape, place_of(rank, shape), threads, gpu ? Backend::cuda : Backend::cpu);
    };
    const auto ledger_of = [&](int rank) { return plan_ledger(run, decisions_of(rank), rank, shape.size()); };
    int largest = 0;
    const Ledger first = ledger_of(0);
    i64 most = first.total();
    for (int rank = 1; rank < shape.size(); ++rank) {
        if (const i64 bytes = ledger_of(rank).total(); bytes > most) {
            most = bytes;
            largest = rank;
        }
    }
    std::string text = plan_text(run, shape, decisions_of(0), first);
    text += fmt::format("rank 0 takes {}", human_bytes(first.total()));
    text += largest == 0 ? std::string(", no rank takes more\n")
                         : fmt::format("; rank {} takes the most, {}:\n{}", largest, human_bytes(most),
                                       ledger_of(largest).table());
    text += fmt::format("without what MPI, BLAS, HDF5{} hold (measured at the start of a run); free here: {}\n",
                        gpu ? " and the device's context" : "", human_bytes(free_memory()));
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        fail(ExitCode::checkpoint, "plan: cannot write to the standard output");
    }
    return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_plan(CLI::App& app, Invocation& chosen) {
    const auto arguments = std::make_shared<PlanArguments>();
    CLI::App* command = app.add_subcommand("plan", "What a run would choose and take, without running it");
    command->footer("Example: ogrom plan inputs/runs/demo.toml --ranks 4 --set train.micro_batch=8");
    command->add_option("run_file", arguments->run_file, "run file (TOML); every key: ogrom keys")
        ->required()
        ->check(CLI::ExistingFile);
    command->add_option("--ranks", arguments->ranks, "ranks that would be started (default: 1)")
        ->transform(whole_number(1));
    command->add_option("--set", arguments->overrides, "section.key=value, stronger than the file; may be repeated")
        ->take_all();
    command->callback([arguments, &chosen] {
        chosen.needs_session = false;
        chosen.run = alone("plan", [arguments] { return plan_command(*arguments); });
    });
}

}  // namespace ogrom
