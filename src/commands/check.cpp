// `ogrom check`: whether ranks, devices, links and the output folder are fit for a run, before the run.
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <vector>

#include "src/base/file.h"
#include "src/base/text.h"
#include "src/comm/signals.h"
#include "src/commands/arguments.h"
#include "src/commands/commands.h"
#include "src/commands/run_file.h"
#include "src/config/assign.h"
#include "src/model/parameters.h"
#include "src/plan/machine.h"
#include "src/report/preflight.h"
#include "src/train/preflight.h"

namespace ogrom {
namespace {

struct CheckArguments {
    std::string run_file, mesh, output, write, device, backend;
    std::vector<std::string> overrides;
    double seconds = 20, threshold = 0.85;
    bool json = false, force = false;
};

// "pp,dp,tp", whose product is the number of ranks.
MeshShape read_mesh(const std::string& text, int ranks) {
    ParallelConfig parallel;
    const std::vector<std::string> parts = split(text, ',');
    i64* const extents[] = {&parallel.pipeline, &parallel.data, &parallel.tensor};
    bool read = parts.size() == 3;
    for (std::size_t i = 0; read && i < 3; ++i) {
        const std::optional<i64> extent = parse_integer(trim(parts[i]));
        read = extent && *extent >= 1;
        *extents[i] = extent.value_or(0);
    }
    require(read, ExitCode::usage,
            fmt::format("check: --mesh {} is not PP,DP,TP; would be right: three whole numbers >= 1 whose product is "
                        "{}, the number of ranks, as in --mesh 1,{},1",
                        quote(text), ranks, ranks));
    return fitting_shape(parallel, ranks);
}

PreflightOptions options_of(const CheckArguments& arguments, int ranks) {
    PreflightOptions options;
    options.run = standard_run();
    options.folder = "results";
    if (!arguments.run_file.empty()) {
        options.run = resolve_run_file(arguments.run_file, arguments.overrides, ranks, TokenSetNeed::for_vocabulary);
        options.mesh = fitting_shape(options.run.parallel, ranks);
        options.has_mesh = true;
        options.folder = options.run.run.output;
        // fp32 master and two moments
        options.checkpoint_bytes = 12 * make_parameters(options.run.model, options.run.numerics.compute).count();
    } else {
        require(arguments.overrides.empty(), ExitCode::usage,
                "check: --set changes a key of a run file, and none is named; would be right: ogrom check RUN.toml "
                "--set ..., or --device, --backend, --mesh");
        options.run.run.device = arguments.device.empty() ? "auto" : arguments.device;
        options.run.comm.backend = arguments.backend.empty() ? "auto" : arguments.backend;
    }
    if (!arguments.mesh.empty()) {
        options.mesh = read_mesh(arguments.mesh, ranks);
        options.has_mesh = true;
    }
    options.folder = arguments.output.empty() ? options.folder : arguments.output;
    options.seconds = arguments.seconds;
    options.threshold = arguments.threshold;
    return options;
}

// Before anything is measured: a file that is there is replaced only with --force.
std::string target_of(const CheckArguments& arguments, Session& session) {
    if (arguments.write.empty()) {
        return {};
    }
    const std::string path = machine_path(arguments.write);
    std::string refusal;
    if (session.rank() == 0) {
        if (is_directory(path)) {
            refusal = fmt::format("check: --write {}: is a folder; would be right: the name of a file", path);
        } else if (file_exists(path) && !arguments.force) {
            refusal =
                fmt::format("check: --write {}: is there already; would be right: another name, or --force", path);
        } else if (!is_directory(parent_path(path))) {
            refusal = fmt::format("check: --write {}: there is no folder {}; would be right: a path in an existing one",
                                  path, parent_path(path));
        }
    }
    refusal = gather_text(session.world(), refusal, "check target")[0];
    require(refusal.empty(), ExitCode::usage, refusal);
    return path;
}

// "NAME" of "inputs/machines/NAME.toml".
std::string stem_of(const std::string& path) {
    const std::string name = path.substr(path.rfind('/') + 1);
    return name.ends_with(".toml") ? name.substr(0, name.size() - 5) : name;
}

void print(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        fail(ExitCode::checkpoint, "check: cannot write to the standard output");
    }
}

int check_command(const CheckArguments& arguments, Session& session) {
    end_on_stop_signals();
    session.set_phase(Phase::start, 0);
    const PreflightOptions options = options_of(arguments, session.size());
    const std::string target = target_of(arguments, session);
    const Preflight found = run_preflight(session, options);
    if (session.rank() == 0) {
        if (!target.empty()) {
            write_file_atomic(target, machine_toml(machine_of(found, stem_of(target))));
        }
        print(arguments.json ? preflight_json(found) : preflight_text(found));
        if (!target.empty() && !arguments.json) {
            print(fmt::format("written   {}\n", target));
        }
    }
    return static_cast<int>(exit_code_of(found.findings));
}

}  // namespace

void add_check(CLI::App& app, Invocation& chosen) {
    const auto arguments = std::make_shared<CheckArguments>();
    CLI::App* command = app.add_subcommand("check", "Measure ranks, devices, links and the output folder before a run");
    command->footer(
        "Example: mpirun -n 8 ogrom check inputs/runs/demo.toml\n"
        "Exit codes of a check: 0 nothing is wrong (warnings are printed), 2 two ranks on one GPU or another fault of "
        "the command, 4 the output folder cannot be written or does not do what saves need (rename, fsync, files and "
        "locks seen on all nodes), 6 a node, rank, device or link is slow or of another version, 7 a limit of the "
        "system (open files, /dev/shm) is too small; the lowest of those that apply. Slow = below --threshold times "
        "the median of its peers in two measurements, latencies and files below a third of that.");
    CLI::Option* const run = command
                                 ->add_option("run_file", arguments->run_file,
                                              "run file (TOML): its mesh, device, type and output folder are checked")
                                 ->check(CLI::ExistingFile);
    command->add_option("--set", arguments->overrides, "section.key=value, stronger than the file; may be repeated")
        ->take_all();
    command->add_option("--mesh", arguments->mesh,
                        "PP,DP,TP: the axes to measure (default: those of the run file, else "
                        "all ranks and the ranks of each node)");
    command
        ->add_option("--output", arguments->output,
                     "folder that a run would write to (default: run.output of the run file, else results); where it "
                     "does not exist yet, the nearest above it is checked")
        ->check([](const std::string& text) {
            return text.empty() ? std::string("is empty; would be right: the folder that a run would write to")
                                : std::string();
        });
    command->add_option("--device", arguments->device, "auto, cpu or cuda, as run.device")
        ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
        ->excludes(run);
    command->add_option("--backend", arguments->backend, "auto, mpi or nccl, as comm.backend")
        ->check(CLI::IsMember({"auto", "mpi", "nccl"}))
        ->excludes(run);
    command->add_option("--seconds", arguments->seconds, "time for all of it, about")
        ->check(positive_number())
        ->capture_default_str();
    command
        ->add_option("--threshold", arguments->threshold,
                     "share of the median of its peers below which a rank or link is slow; a quarter of it where "
                     "ranks share cores")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    CLI::Option* const write = command->add_option(
        "--write", arguments->write, "NAME or PATH: write what was measured to inputs/machines/NAME.toml, or PATH");
    command->add_flag("--force", arguments->force, "replace the file of --write")->needs(write);
    command->add_flag("--json", arguments->json, "the figures as JSON");
    command->callback([arguments, &chosen] {
        chosen.needs_session = true;
        chosen.run = [arguments](Session* session) { return check_command(*arguments, *session); };
    });
}

}  // namespace ogrom
