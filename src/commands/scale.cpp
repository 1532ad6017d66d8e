// In: RUN.toml, numbers of ranks, layouts. Out: one file per point of the study, a table; exit code 0, 75 when a signal
// ended it in order. Next: train/study_plan.cpp, train/study.cpp
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <memory>

#include "src/base/file.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/commands/arguments.h"
#include "src/commands/commands.h"
#include "src/commands/run_file.h"
#include "src/commands/scale_table.h"
#include "src/device/select.h"
#include "src/train/setup.h"
#include "src/train/study.h"

namespace ogrom {
namespace {

struct ScaleArguments {
    std::string run_file;
    std::vector<std::string> overrides, layouts;
    bool weak = false, strong = false, both = false, resume = false, json = false;
    std::string ranks, axis = "dp", output;
    i64 repeats = 3, steps = 10, warmup = 2;
};

std::vector<StudyKind> kinds_of(const ScaleArguments& arguments) {
    std::vector<StudyKind> kinds;
    if (arguments.weak || arguments.both) {
        kinds.push_back(StudyKind::weak);
    }
    if (arguments.strong || arguments.both) {
        kinds.push_back(StudyKind::strong);
    }
    require(!kinds.empty(), ExitCode::usage,
            "scale: neither weak nor strong; would be right: --weak (fixed tokens per rank), --strong (fixed global "
            "batch), or --both");
    return kinds;
}

// 1, 2, 4, ... and the world where nothing is said.
std::vector<i64> ranks_of(const std::string& text, i64 world) {
    std::vector<i64> ranks;
    if (text.empty()) {
        for (i64 n = 1; n < world; n *= 2) {
            ranks.push_back(n);
        }
        ranks.push_back(world);
        return ranks;
    }
    for (const std::string& word : split(text, ',')) {
        const std::optional<i64> n = parse_integer(trim(word));
        require(n && *n >= 1, ExitCode::usage,
                fmt::format("--ranks {}: {} is no number of ranks; would be right: whole numbers >= 1 parted by "
                            "commas, as in --ranks 1,2,4",
                            text, quote(trim(word))));
        require(*n <= world, ExitCode::usage,
                fmt::format("--ranks {}: {} ranks, but {} {} started; would be right: at most {}, or mpirun -n {}",
                            text, *n, world, world == 1 ? "was" : "were", world, *n));
        require(std::find(ranks.begin(), ranks.end(), *n) == ranks.end(), ExitCode::usage,
                fmt::format("--ranks {}: {} stands twice", text, *n));
        ranks.push_back(*n);
    }
    std::sort(ranks.begin(), ranks.end());
    return ranks;
}

std::vector<StudyLayout> layouts_of(const ScaleArguments& arguments, const RunConfig& base) {
    if (arguments.axis == "zero") {
        require(arguments.layouts.empty(), ExitCode::usage,
                "--axis zero compares the ZeRO stages 0 to 3 and makes its own layouts; would be right: without "
                "--layout, or --axis dp with \"--layout NAME: parallel.zero=N\"");
        return zero_layouts();
    }
    std::vector<StudyLayout> layouts;
    for (const std::string& text : arguments.layouts) {
        layouts.push_back(parse_study_layout(text, arguments.axis));
    }
    if (layouts.empty()) {
        const i64 zero = base.parallel.zero;
        layouts.push_back({arguments.axis + (zero > 0 ? fmt::format(" zero{}", zero) : ""), {}, arguments.axis});
    }
    return layouts;
}

// One thread for each rank at every size, where ranks share cores and the user says nothing else.
void set_threads_of_study(StudyWish& wish, const RunConfig& base, Session& session) {
    const bool gpu = select_device(base.run.device, session.node_rank()).is_gpu();
    if (agree_max(session.world(), gpu || wanted_threads(base) > 0 ? 1 : 0, "threads of the study") == 0) {
        wish.overrides.emplace_back("run.threads=1");
    }
}

void print(const std::string& text) {
    flush_log();
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        fail(ExitCode::checkpoint, "scale: cannot write to the standard output");
    }
}

int tell(const ScaleArguments& arguments, const StudyWish& wish, const StudyOutcome& outcome) {
    if (arguments.json) {
        print(scale_json(outcome.points, wish.name, wish.folder));
    } else if (!outcome.points.empty()) {
        print(scale_table(outcome.points));
    }
    if (!outcome.stopped_by.empty()) {
        log_warning("stopped by {}: the points in {} stand; the same command with --resume makes the missing repeats",
                    outcome.stopped_by, join_path(wish.folder, study_points_folder));
        return static_cast<int>(ExitCode::saved_for_requeue);
    }
    log_info("study in {}; charts and tables: ogrom report {}", wish.folder, wish.folder);
    flush_log();
    return static_cast<int>(ExitCode::done);
}

int scale_command(const ScaleArguments& arguments, Session& session) {
    StudyWish wish;
    wish.kinds = kinds_of(arguments);
    wish.ranks = ranks_of(arguments.ranks, session.size());
    wish.overrides = arguments.overrides;
    wish.steps = {arguments.warmup, arguments.steps};
    wish.repeats = arguments.repeats;
    const ResolveRun resolve = [&](const std::vector<std::string>& overrides, i64 ranks) {
        return resolve_run_file(arguments.run_file, overrides, ranks, TokenSetNeed::always);
    };
    const RunConfig base = resolve(wish.overrides, 0);
    wish.name = base.run.name;
    wish.folder = arguments.output.empty() ? "results/studies/" + wish.name : arguments.output;
    wish.layouts = layouts_of(arguments, base);
    set_threads_of_study(wish, base, session);
    const std::vector<PlannedPoint> planned = plan_study(wish, resolve);
    const StudyOutcome outcome =
        run_study(session, wish, planned, arguments.resume ? StudyResume::yes : StudyResume::no);
    session.set_phase(Phase::report, 0);
    if (session.rank() == 0) {
        return tell(arguments, wish, outcome);
    }
    return static_cast<int>(outcome.stopped_by.empty() ? ExitCode::done : ExitCode::saved_for_requeue);
}

void add_options(CLI::App& command, ScaleArguments& arguments) {
    command.add_option("run_file", arguments.run_file, "run file (TOML); every key: ogrom keys")
        ->required()
        ->check(CLI::ExistingFile);
    command.add_flag("--weak", arguments.weak, "fixed tokens per rank: the global batch grows with the ranks");
    command.add_flag("--strong", arguments.strong, "fixed global batch");
    command.add_flag("--both", arguments.both, "a weak and a strong study");
    command.add_option("--ranks", arguments.ranks,
                       "numbers of ranks, as in 1,2,4 (default: powers of two up to those that were started)");
    command
        .add_option("--axis", arguments.axis,
                    "axis that grows with the ranks: dp, tp, pp; zero: dp under the ZeRO stages 0 to 3 side by side")
        ->check(CLI::IsMember({"dp", "tp", "pp", "zero"}))
        ->capture_default_str();
    command
        .add_option("--layout", arguments.layouts,
                    "\"NAME: section.key=value ...\", a layout to compare; axis=dp|tp|pp among the keys lets another "
                    "axis grow; may be repeated")
        ->take_all();
    command.add_option("--repeats", arguments.repeats, "of each point; medians and spread are over them")
        ->transform(whole_number(1))
        ->capture_default_str();
    command.add_option("--steps", arguments.steps, "measured in each repeat")
        ->transform(whole_number(1))
        ->capture_default_str();
    command.add_option("--warmup", arguments.warmup, "steps before them, left out; the first one always is")
        ->transform(whole_number(1))
        ->capture_default_str();
    command.add_option("--set", arguments.overrides, "section.key=value, stronger than the file; may be repeated")
        ->take_all();
    command.add_option("--output", arguments.output, "folder of the study (default: results/studies/<run.name>)");
    command.add_flag("--resume", arguments.resume, "go on with a folder that has points: make the missing repeats");
    command.add_flag("--json", arguments.json, "the figures of the table as JSON on standard output");
}

}  // namespace

void add_scale(CLI::App& app, Invocation& chosen) {
    const auto arguments = std::make_shared<ScaleArguments>();
    CLI::App* command = app.add_subcommand("scale", "A weak or strong scaling study inside one launch");
    command->footer(
        "Example: mpirun -n 8 ogrom scale inputs/runs/demo.toml --both --ranks 1,2,4,8 --set parallel.tensor=1\n"
        "         mpirun -n 8 ogrom scale RUN.toml --strong --layout \"zero3: parallel.zero=3\" "
        "--layout \"tp2: parallel.tensor=2\"\n"
        "Each point trains the first ranks of the launch while the others rest: warm-up steps, then measured ones; no "
        "evaluation, no checkpoint. Points are made by turns, repeat by repeat, and each is a file in "
        "FOLDER/points, rewritten after each of its repeats. SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 end the "
        "study "
        "with exit code 75 at the next micro-batch of the point under way (of a rank that rests: when that point is "
        "done); what is in the folder stands, and --resume makes the rest.");
    add_options(*command, *arguments);
    command->callback([arguments, &chosen] {
        require(arguments->steps <= most_measured_steps && arguments->warmup <= most_measured_steps, ExitCode::usage,
                fmt::format("--steps, --warmup: more than {} steps; would be right: fewer, with more --repeats",
                            most_measured_steps));
        chosen.needs_session = true;
        chosen.timeout_s = timeout_of(arguments->run_file, arguments->overrides);
        chosen.run = [arguments](Session* session) { return scale_command(*arguments, *session); };
    });
}

}  // namespace ogrom
