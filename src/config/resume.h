// What a resumed run may change against the run file in its checkpoint (B13): layout, output and intervals freely;
// whatever changes the course of training only by name (checkpoint.allow_changed); the shapes of the state never.
#pragma once
#include <string>
#include <vector>

#include "src/config/run.h"

namespace ogrom {

struct ResumeChange {
    std::string key;
    std::string saved, current;  // values as TOML text
    bool allowed = false;
    std::string text;  // for the log or the error: key, both values, which one is used, what would allow it
};

// Keys of consequence whose values differ, allowed or not. Throws Error(checkpoint) when `saved_toml` cannot be read.
std::vector<ResumeChange> resume_changes(const std::string& saved_toml, const RunConfig& current);

// The texts of those that are not allowed: a resume must refuse when there is one.
std::vector<std::string> resume_conflicts(const std::string& saved_toml, const RunConfig& current);

}  // namespace ogrom
