#include "src/train/run_folder.h"

#include <fmt/format.h>

#include "src/base/file.h"
#include "src/base/log.h"
#include "src/io/checkpoint.h"

namespace ogrom {

ResumeChoice parse_resume(const std::string& value) {
    if (value.empty()) {
        return {Resume::newest, {}};
    }
    return value == "auto" ? ResumeChoice{Resume::newest_or_fresh, {}} : ResumeChoice{Resume::path, value};
}

std::string checkpoints_of(const RunConfig& run) {
    return join_path(run.run.output, "checkpoints");
}

RunFolder::RunFolder(const RunConfig& run, Resume resume) : provisional_(run.run.output), lease_(run.run.output) {
    const std::string& folder = run.run.output;
    provisional_.add("log.txt");
    if (!lease_.replaced().empty()) {
        log_info("{}", lease_.replaced());
    }
    const bool holds_run = file_exists(join_path(folder, "run.toml")) ||
                           file_exists(join_path(folder, "metrics.csv")) || file_exists(checkpoints_of(run));
    if (resume == Resume::none && holds_run) {
        fail(ExitCode::usage,
             fmt::format("{} holds a run already: continue it with --resume, or choose another run.name or run.output",
                         folder));
    }
}

void archive(const RunConfig& run, const std::string& provenance_json) {
    write_file_atomic(join_path(run.run.output, "run.toml"), run.resolved_toml);
    write_file_atomic(join_path(run.run.output, "provenance.json"), provenance_json);
}

std::string choose_checkpoint(const RunConfig& run, const ResumeChoice& choice) {
    switch (choice.kind) {
        case Resume::none:
            return {};
        case Resume::path:
            return choice.path;
        case Resume::newest:
        case Resume::newest_or_fresh:
            break;
    }
    std::vector<std::string> passed_over;
    const std::optional<std::string> found = find_latest(checkpoints_of(run), passed_over);
    for (const std::string& line : passed_over) {
        log_warning("checkpoint passed over: {}", line);
    }
    if (!found && choice.kind == Resume::newest) {
        fail(ExitCode::checkpoint, fmt::format("--resume: {} holds no complete checkpoint; start anew "
                                               "with --resume=auto, or name one with "
                                               "--resume=PATH",
                                               checkpoints_of(run)));
    }
    return found.value_or("");
}

}  // namespace ogrom
