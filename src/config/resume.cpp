#include "src/config/resume.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/common/fault.h"

#include "src/base/error.h"
#include "src/config/schema.h"

namespace ogrom {

namespace {

RunConfig parse_saved(const std::string& saved_toml, const RunConfig& current) {
    ParseInput input;
    input.path = "run file of the checkpoint";
    input.text = saved_toml;
    input.ranks = 0;
    try {
        RunConfig saved = parse_run(input);
        if (saved.model.vocab == 0) {
            saved.model.vocab =
                current.model.vocab;  // both took it from the tokenizer, whose identity is checked apart
        }
        return saved;
    } catch (const Error& error) {
        fail(ExitCode::checkpoint, fmt::format("the run file in the checkpoint cannot be read: {}", error.what()));
    }
}

std::string text_of(const Key& key, const ResumeChange& change) {
    const std::string differs =
        fmt::format("{}: {} in the checkpoint, {} in the run file", change.key, change.saved, change.current);
    if (key.on_resume == OnResume::fixed) {
        return fmt::format("{}; would be right: {} (this decides the saved state itself)", differs, change.saved);
    }
    if (change.allowed) {
        return fmt::format("{}; {} is used (checkpoint.allow_changed)", differs, change.current);
    }
    return fmt::format("{}; would be right: {}, or checkpoint.allow_changed = [\"{}\"] to go on with {}", differs,
                       change.saved, change.key, change.current);
}

}  // namespace

std::vector<ResumeChange> resume_changes(const std::string& saved_toml, const RunConfig& current) {
    const RunConfig saved = parse_saved(saved_toml, current);
    const std::vector<std::string>& allow = current.checkpoint.allow_changed;
    std::vector<ResumeChange> changes;
    for (const Key& key : schema()) {
        if (key.on_resume == OnResume::free || fault_active("config_resume_change")) {
            continue;
        }
        ResumeChange change;
        change.key = key.full_name();
        change.saved = value_text(key, saved);
        change.current = value_text(key, current);
        if (change.saved != change.current) {
            change.allowed = key.on_resume == OnResume::by_permission &&
                             std::find(allow.begin(), allow.end(), change.key) != allow.end();
            change.text = text_of(key, change);
            changes.push_back(change);
        }
    }
    return changes;
}

std::vector<std::string> resume_conflicts(const std::string& saved_toml, const RunConfig& current) {
    std::vector<std::string> conflicts;
    for (const ResumeChange& change : resume_changes(saved_toml, current)) {
        if (!change.allowed) {
            conflicts.push_back(change.text);
        }
    }
    return conflicts;
}

}  // namespace ogrom
