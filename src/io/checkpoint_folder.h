// Names and lives of step folders below a run's checkpoints/ folder.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernels/common/extents.h"

#include "src/io/durable.h"

namespace ogrom {

struct Retention;  // io/checkpoint.h

std::string step_name(i64 step);                             // "step-00000012"
std::optional<i64> step_of(const std::string& folder_name);  // of a name that step_name makes
std::string temporary_name(i64 step);                        // "step-00000012.tmp-<host>-<pid>-<random>"

// The step folder a user means by `path`: a step folder, its checkpoint.h5, the file `latest` beside it (what it
// names), a checkpoints/ folder or a run's folder (the newest complete one of these). Throws Error(checkpoint) when
// there is none.
std::string resolve_checkpoint(const std::string& path);

// PATH.abandoned-<random>: a checkpoint that another has taken the place of; nothing here reads or removes it.
std::string abandoned_name(const std::string& path);

// A line for each temporary folder of a step beyond `step`: a save that was cut off, and how far it had come.
std::vector<std::string> unfinished_saves(const std::string& directory, i64 step);

// Removes what saves that can no longer finish left behind: temporaries of this process, of dead processes of this
// host, and of other hosts once untouched for a day. Returns a line for each.
std::vector<std::string> remove_stale(const Disk& disk, const std::string& directory);

// Takes the names of complete checkpoints beyond `step` away before `step` is committed: a run that went back and goes
// on from an earlier checkpoint must not find them as the newest at its next resume. They stay on the disk under
// abandoned_name. Returns a line for each.
std::vector<std::string> set_aside_later(const Disk& disk, const std::string& directory, i64 step);

// Removes complete checkpoints up to `step` (the one just made durable) that `keep` lets go. Incomplete folders stay. A
// folder loses its name first and is then removed, so that a half-removed one is never taken for a checkpoint.
void prune(const Disk& disk, const std::string& directory, i64 step, const Retention& keep);

}  // namespace ogrom
