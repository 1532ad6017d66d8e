#include "src/train/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

#include "src/base/file.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/io/checkpoint.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_header.h"
#include "src/io/replay_trace.h"

namespace ogrom {

ResumeChoice parse_resume(const std::string& value) {
    if (value.empty()) {
        return {Resume::newest, {}, ResumeInto::folder};
    }
    return value == "auto" ? ResumeChoice{Resume::newest_or_fresh, {}, ResumeInto::folder}
                           : ResumeChoice{Resume::path, value, ResumeInto::folder};
}

std::string checkpoints_of(const RunConfig& run) {
    return join_path(run.run.output, "checkpoints");
}

bool is_own(const RunConfig& run, const std::string& checkpoint) {
    return !checkpoint.empty() && same_place(parent_path(checkpoint), checkpoints_of(run));
}

namespace {

// Found at the first save it would cost what was trained until then, and a resume would take it for an empty folder.
void require_folder_or_nothing(const std::string& path) {
    namespace fs = std::filesystem;
    const bool there = fs::exists(fs::symlink_status(path));
    require(!there || is_directory(path), ExitCode::checkpoint,
            fmt::format("{}: {}; would be right: a folder, a link to one, or nothing", path,
                        fs::is_symlink(path) ? "is a link to what is not there, or is no folder" : "is not a folder"));
}

}  // namespace

RunFolder::RunFolder(const RunConfig& run, Resume resume) : provisional_(run.run.output), path_(run.run.output) {
    const std::string& folder = run.run.output;
    lease_.emplace(folder);
    provisional_.add("log.txt");
    if (!lease_->replaced().empty()) {
        log_info("{}", lease_->replaced());
    }
    if (!lease_->unlocked().empty()) {
        log_warning("{}", lease_->unlocked());
    }
    require_folder_or_nothing(checkpoints_of(run));
    const bool holds_run = file_exists(join_path(folder, "run.toml")) ||
                           file_exists(join_path(folder, "metrics.csv")) || file_exists(checkpoints_of(run));
    if (resume == Resume::none && holds_run) {
        fail(ExitCode::usage,
             fmt::format("{} holds a run already: continue it with --resume, or choose another run.name or run.output",
                         folder));
    }
}

void RunFolder::require_ours() {
    if (file_surely_exists(path_)) {
        lease_->require_held();
        return;
    }
    make_directories(path_);
    lease_.emplace(path_);
    log_warning("{} was moved or removed while this run used it: it is made anew, and has the checkpoints from now on",
                path_);
}

namespace {

// A path after --resume that does not exist: the steps that stand beside it, or in the run's own folder.
void require_exists(const RunConfig& run, const std::string& path) {
    if (file_exists(path)) {
        return;
    }
    std::vector<std::string> steps;
    std::string place = parent_path(path);
    for (const std::string& folder : {parent_path(path), checkpoints_of(run)}) {
        if (steps.empty() && !folder.empty() && file_exists(folder) && is_directory(folder)) {
            place = folder;
            for (const std::string& name : list_directory(folder)) {
                if (name.starts_with("step-")) {
                    steps.push_back(name);
                }
            }
        }
    }
    std::sort(steps.begin(), steps.end());
    fail(ExitCode::checkpoint,
         fmt::format("--resume: {} does not exist; {}", path,
                     steps.empty() ? std::string("there is no checkpoint beside it")
                                   : fmt::format("in {} there is: {}", place, join(steps, ", "))));
}

enum class OnDamage { warn, pass_over };

// The first of rank 0's `candidates` whose files have the hashes that they were written with; empty where none has.
std::string newest_intact(Communicator& world, const std::vector<std::string>& candidates, OnDamage on_damage) {
    for (std::size_t i = 0;; ++i) {
        const std::string mine = i < candidates.size() ? candidates[i] : std::string();
        const std::string candidate = gather_text(world, mine, "checkpoint to resume")[0];
        if (candidate.empty()) {
            return {};
        }
        const std::string damage = damage_of(world, candidate);
        if (damage.empty()) {
            return candidate;
        }
        if (world.rank() == 0 && on_damage == OnDamage::warn) {
            log_warning("checkpoint passed over: {}", damage);
        }
    }
}

// Figures and checkpoints of two histories in one folder could not be told apart.
void require_own_or_new(const RunConfig& run, const std::string& checkpoint) {
    const std::string own = checkpoints_of(run);
    if (is_own(run, checkpoint) || !file_exists(own)) {
        return;
    }
    for (const std::string& name : list_directory(own)) {
        require(!step_of(name), ExitCode::usage,
                fmt::format("--resume: {} is of another run, and {} holds {} of this one: continue this run with "
                            "--resume or --resume=auto, or give the other's checkpoint a new run.output",
                            checkpoint, own, name));
    }
}

// The step folder that a path after --resume means.
std::string named_checkpoint(Communicator& world, const RunConfig& run, const ResumeChoice& choice) {
    const std::string& path = choice.path;
    std::string mine;
    if (world.rank() == 0) {
        require_exists(run, path);
        mine = resolve_checkpoint(path);
        if (choice.into == ResumeInto::folder) {
            require_own_or_new(run, mine);
        }
    }
    const std::string folder = gather_text(world, mine, "checkpoint named")[0];
    require_intact(world, "--resume", folder, checkpoints_of(run));
    return folder;
}

// A checkpoint beyond `step` that a newer version of the program wrote is whole: to go on from before it would make its
// steps anew and take its place. Empty where there is none.
std::string newer_than(const std::string& directory, i64 step) {
    for (const std::string& name : is_directory(directory) ? list_directory(directory) : std::vector<std::string>()) {
        const std::string folder = join_path(directory, name);
        if (step_of(name).value_or(-1) <= step) {
            continue;
        }
        if (const std::optional<i64> format = newer_format(folder)) {
            return fmt::format(
                "--resume: {} has format {}, this program reads format {}: a newer version wrote it; "
                "would be right: that version, or an older checkpoint by --resume=PATH",
                folder, *format, CheckpointHeader().format);
        }
    }
    return {};
}

}  // namespace

void require_intact(Communicator& world, const std::string& what, const std::string& checkpoint,
                    const std::string& also) {
    const std::string damage = damage_of(world, checkpoint);
    if (damage.empty()) {
        return;
    }
    std::vector<std::string> others, incomplete;
    if (world.rank() == 0) {
        others = complete_checkpoints(parent_path(checkpoint), incomplete);
        const std::vector<std::string> more =
            also.empty() ? std::vector<std::string>() : complete_checkpoints(also, incomplete);
        others.insert(others.end(), more.begin(), more.end());
        std::erase(others, checkpoint);
    }
    const std::string intact = newest_intact(world, others, OnDamage::pass_over);
    fail(ExitCode::checkpoint, fmt::format("{}: {}; {}", what, damage,
                                           intact.empty() ? std::string("no other checkpoint here is intact")
                                                          : fmt::format("the newest intact one is {}", intact)));
}

void archive(const RunConfig& run, const std::string& provenance_json) {
    for (const auto& [name, text] : {std::pair<const char*, const std::string&>{"run.toml", run.resolved_toml},
                                     {"provenance.json", provenance_json}}) {
        const std::string path = join_path(run.run.output, name);
        remove_left_over(path);  // of a run that was killed within
        write_file_atomic(path, text);
    }
    const std::string checkpoints = checkpoints_of(run);
    for (const std::string& name :
         is_directory(checkpoints) ? list_directory(checkpoints) : std::vector<std::string>()) {
        const std::string folder = join_path(checkpoints, name);
        if (step_of(name) && is_directory(folder)) {
            remove_left_over(join_path(folder, replay_trace_name));  // the same
        }
    }
}

std::string choose_checkpoint(Communicator& world, const RunConfig& run, const ResumeChoice& choice) {
    switch (choice.kind) {
        case Resume::none:
            return {};
        case Resume::path:
            return named_checkpoint(world, run, choice);
        case Resume::newest:
        case Resume::newest_or_fresh:
            break;
    }
    std::vector<std::string> candidates, passed_over;
    if (world.rank() == 0) {
        candidates = complete_checkpoints(checkpoints_of(run), passed_over);
    }
    for (const std::string& line : passed_over) {
        log_warning("checkpoint passed over: {}", line);
    }
    const std::string found = newest_intact(world, candidates, OnDamage::warn);
    std::string newer;
    if (world.rank() == 0) {
        const i64 step = found.empty() ? -1 : step_of(std::filesystem::path(found).filename().string()).value_or(-1);
        newer = newer_than(checkpoints_of(run), step);
        for (const std::string& line : unfinished_saves(checkpoints_of(run), step)) {
            log_warning("checkpoint passed over: {}", line);
        }
    }
    newer = gather_text(world, newer, "newer checkpoint")[0];
    require(newer.empty(), ExitCode::checkpoint, newer);
    std::string reason;
    if (!candidates.empty() || !passed_over.empty()) {
        // A start at step 1 would put new checkpoints and figures in the place of those that somebody may still mend.
        reason =
            "holds no complete checkpoint that is intact (see the warnings): name another with --resume=PATH, or "
            "start anew under another run.output";
    } else if (choice.kind == Resume::newest) {
        reason =
            "holds no checkpoint; --resume=auto starts anew where there is none, --resume=PATH names one elsewhere";
    }
    reason = gather_text(world, reason, "no checkpoint to resume")[0];
    if (found.empty() && !reason.empty()) {
        fail(ExitCode::checkpoint, fmt::format("--resume: {} {}", checkpoints_of(run), reason));
    }
    return found;
}

}  // namespace ogrom
