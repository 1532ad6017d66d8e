// In: RUN.toml and overrides. Out: a trained model in the run's folder, exit code 0, 75 when saved for a requeue.
// Next: commands/run_file.cpp, config/parse.cpp, comm/mesh.cpp, train/trainer.cpp.
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/log.h"
#include "src/base/text.h"
#include "src/commands/arguments.h"
#include "src/commands/commands.h"
#include "src/commands/run_file.h"
#include "src/config/run.h"
#include "src/io/metrics.h"
#include "src/report/chart.h"
#include "src/report/schedule.h"
#include "src/train/trainer.h"

namespace ogrom {
namespace {

struct TrainArguments {
    std::string run_file;
    std::vector<std::string> overrides;
    std::string resume, init_from;
    double time_limit_minutes = 0;
    i64 stop_after = 0;
    bool json = false, verify = false;
};

// Pictures carry the name of the folder that holds them: runs of one file differ in it.
std::string title_of(const RunConfig& run) {
    const std::filesystem::path folder = std::filesystem::path(run.run.output).lexically_normal();
    return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

// Rank 0; a chart is never worth a run, so a machine without gnuplot, or figures that are gone, is told and goes on.
void draw_chart(const RunConfig& run) {
    std::string reason;
    std::optional<std::string> chart;
    try {
        chart =
            draw_loss_chart(run.run.output, title_of(run), read_metrics_csv(run.run.output + "/metrics.csv"), reason);
    } catch (const Error& error) {
        reason = error.what();
    }
    log_info("{}", chart ? "chart " + *chart : "no loss chart: " + reason);
    flush_log();
}

// Rank 0, of a traced pipeline; like the chart never worth a run.
void draw_traced_schedule(const RunConfig& run, const TrainSummary& summary) {
    if (!summary.schedule) {
        return;
    }
    try {
        log_info("schedule {}", draw_schedule(run.run.output, title_of(run), *summary.schedule));
    } catch (const Error& error) {
        log_warning("no picture of the schedule: {}", error.what());
    }
    flush_log();
}

// On every rank the same code; rank 0 prints.
int verify_command(const TrainArguments& arguments, const RunConfig& run, const ResumeChoice& resume,
                   Session& session) {
    const ReplayReport report = verify_resume(session, run, resume);
    if (session.rank() == 0) {
        flush_log();
        std::printf("%s\n", (arguments.json ? report_json(report) : trim(report_text(report))).c_str());
    }
    return static_cast<int>(report.code());
}

// What only a run that trains can do.
void require_alone(const CLI::App& command) {
    require(command.get_option("--resume")->count() > 0, ExitCode::usage,
            "--resume-verify: needs a checkpoint; would be right: --resume --resume-verify, or --resume=PATH");
    for (const char* name : {"--init-from", "--time-limit", "--stop-after"}) {
        const CLI::Option* const other = command.get_option_no_throw(name);
        require(other == nullptr || other->count() == 0, ExitCode::usage,
                fmt::format("--resume-verify: makes the recorded steps again and ends, {} says nothing there; would be "
                            "right: without it",
                            name));
    }
}

// The flag is the key; a resume that never starts anew would never read it.
void set_init_from(TrainArguments& arguments, const ResumeChoice& resume) {
    require(!arguments.init_from.empty(), ExitCode::usage,
            "--init-from: no path; would be right: a Hugging Face GPT-2 folder, or a checkpoint");
    require(resume.kind == Resume::none || resume.kind == Resume::newest_or_fresh, ExitCode::usage,
            "--init-from begins a new run, --resume and --resume=PATH go on with one; would be right: one of the two, "
            "or --init-from with --resume=auto, which begins where the run has no checkpoint yet");
    arguments.overrides.push_back("checkpoint.init_from=" + quote(arguments.init_from));
}

int train_command(const TrainArguments& arguments, const ResumeChoice& resume, Session& session) {
    const RunConfig run =
        resolve_run_file(arguments.run_file, arguments.overrides, session.size(), TokenSetNeed::always);
    if (arguments.verify) {
        return verify_command(arguments, run, resume, session);
    }
    const TrainOptions options{
        .resume = resume,
        .time_limit = agree_time_limit(session.world(), run.train.stop_before, arguments.time_limit_minutes),
        .stop_after_steps = arguments.stop_after};
    const TrainSummary summary = train(session, run, options);
    if (session.rank() == 0) {
        draw_chart(run);
        draw_traced_schedule(run, summary);
        if (arguments.json) {
            std::printf("%s\n", summary_json(summary).c_str());
        }
    }
    return static_cast<int>(summary.code);
}

}  // namespace

void add_train(CLI::App& app, Invocation& chosen) {
    const auto arguments = std::make_shared<TrainArguments>();
    CLI::App* command = app.add_subcommand("train", "Train a model as a run file says");
    command->footer(
        "Example: mpirun -n 4 ogrom train inputs/runs/demo.toml --set train.steps=200\n"
        "         mpirun -n 4 ogrom train inputs/runs/demo.toml --resume\n"
        "         mpirun -n 4 ogrom train inputs/runs/demo.toml --init-from gpt2 --resume=auto\n"
        "Writes run.toml, provenance.json, metrics.csv, metrics.h5, log.txt, events.jsonl and checkpoints/ into "
        "run.output.\n"
        "SIGTERM, SIGINT (Ctrl-C), SIGHUP, SIGUSR1 and SIGUSR2 save at the next micro-batch and end with exit code 75; "
        "a second SIGINT ends at once, without the save. mpirun passes SIGUSR1 and SIGUSR2 on; of Ctrl-C or SIGTERM it "
        "makes a SIGTERM, 1 s later a SIGKILL (a longer save needs mpirun --mca odls_base_sigkill_timeout N), and "
        "returns its own 1. Under nohup SIGHUP is ignored. A reader of the output that "
        "goes away (| head) does not end the run: log.txt has every line.");
    command->add_option("run_file", arguments->run_file, "run file (TOML); every key: ogrom keys")
        ->required()
        ->check(CLI::ExistingFile);
    command->add_option("--set", arguments->overrides, "section.key=value, stronger than the file; may be repeated")
        ->take_all();
    const CLI::Option* resume =
        command
            ->add_option("--resume", arguments->resume,
                         "go on from the newest complete checkpoint of the run's folder (none: an error); =auto: from "
                         "there, or from the start; =PATH: from that checkpoint")
            ->expected(0, 1);
    const CLI::Option* init_from =
        command->add_option("--init-from", arguments->init_from,
                            "start the run with these weights (sets checkpoint.init_from): a Hugging Face GPT-2 "
                            "folder, or a checkpoint, step or run folder; with --resume=auto for requeues, where the "
                            "run's own checkpoints win");
    command
        ->add_option("--time-limit", arguments->time_limit_minutes,
                     "minutes from launch after which the run saves and ends with exit code 75")
        ->transform(positive_number());
    command
        ->add_option("--stop-after", arguments->stop_after,
                     "steps of this process after which the run saves and ends with exit code 75")
        ->transform(whole_number(1));
    command->add_flag("--resume-verify", arguments->verify,
                      "with --resume: make the steps again that the run recorded after that checkpoint (trace.json), "
                      "compare loss, gradient norm and weight hash, and end: 0 equal, 5 not; writes nothing");
    command->add_flag("--json", arguments->json, "print the summary as JSON on standard output at the end");
    command->callback([arguments, resume, init_from, command, &chosen] {
        if (arguments->verify) {
            require_alone(*command);
        }
        const ResumeChoice choice = resume->count() > 0 ? parse_resume(arguments->resume) : ResumeChoice{};
        if (init_from->count() > 0) {
            set_init_from(*arguments, choice);
        }
        chosen.needs_session = true;
        chosen.timeout_s = timeout_of(arguments->run_file, arguments->overrides);
        chosen.run = [arguments, choice](Session* session) { return train_command(*arguments, choice, *session); };
    });
}

}  // namespace ogrom
