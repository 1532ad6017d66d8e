#include "src/config/resume.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/common/fault.h"

#include "src/base/error.h"
#include "src/base/text.h"
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

// The line that would allow every change of this resume at once.
std::string permission_for(const std::vector<ResumeChange>& changes, std::vector<std::string> names) {
    for (const ResumeChange& change : changes) {
        if (!change.allowed && find_key(change.key)->on_resume == OnResume::by_permission) {
            names.push_back(change.key);
        }
    }
    for (std::string& name : names) {
        name = quote(name);
    }
    return fmt::format("checkpoint.allow_changed = [{}]", join(names, ", "));
}

std::string text_of(const Key& key, const ResumeChange& change, const std::string& permission) {
    const std::string differs =
        fmt::format("{}: {} in the checkpoint, {} in the run file", change.key, change.saved, change.current);
    if (key.on_resume == OnResume::fixed) {
        return fmt::format("{}; would be right: {} (this decides the saved state itself)", differs, change.saved);
    }
    if (change.allowed) {
        return fmt::format("{}; {} is used (checkpoint.allow_changed)", differs, change.current);
    }
    return fmt::format("{}; would be right: {}, or {} to go on with {}", differs, change.saved, permission,
                       change.current);
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
            changes.push_back(change);
        }
    }
    const std::string permission = permission_for(changes, allow);
    for (ResumeChange& change : changes) {
        change.text = text_of(*find_key(change.key), change, permission);
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
