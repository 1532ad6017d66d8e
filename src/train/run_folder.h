// The folder of a run: run.toml, provenance.json, metrics.*, log.txt, events.jsonl, checkpoints/. Rank 0 only.
#pragma once
#include <string>

#include "src/config/run.h"
#include "src/io/lease.h"

namespace ogrom {

enum class Resume { none, newest, newest_or_fresh, path };  // --resume absent, bare, =auto, =PATH

struct ResumeChoice {
    Resume kind = Resume::none;
    std::string path;  // for Resume::path
};
// "auto" -> newest_or_fresh, "" -> newest, else a path.
ResumeChoice parse_resume(const std::string& value);

std::string checkpoints_of(const RunConfig& run);

// Makes the folder and takes its lease, to be kept while the run writes; refuses with Error(usage) a folder that
// another process writes to, and one that holds a run already when nothing is to be resumed.
Lease open_run_folder(const RunConfig& run, Resume resume);

// The resolved run file and the provenance, before step 1.
void archive(const RunConfig& run, const std::string& provenance_json);

// Checkpoint to start from; empty for a fresh start. Lines about checkpoints passed over go to the log. Throws
// Error(checkpoint) where one is asked for and there is none.
std::string choose_checkpoint(const RunConfig& run, const ResumeChoice& choice);

}  // namespace ogrom
