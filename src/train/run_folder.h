// The folder of a run: run.toml, provenance.json, metrics.*, log.txt,
// events.jsonl, checkpoints/. Rank 0 only.
#pragma once
#include <optional>
#include <string>

#include "src/comm/communicator.h"
#include "src/config/run.h"
#include "src/io/lease.h"
#include "src/io/provisional.h"

namespace ogrom {

enum class Resume { none, newest, newest_or_fresh, path };  // --resume absent, bare, =auto, =PATH

// What the process that resumes writes: a run's folder, or nothing (--resume-verify), which may look at any run.
enum class ResumeInto { folder, nothing };

struct ResumeChoice {
    Resume kind = Resume::none;
    std::string path;  // for Resume::path
    ResumeInto into = ResumeInto::folder;
};
// "auto" -> newest_or_fresh, "" -> newest, else a path.
ResumeChoice parse_resume(const std::string& value);

std::string checkpoints_of(const RunConfig& run);
// Whether a step folder is one of the run's own.
bool is_own(const RunConfig& run, const std::string& checkpoint);

// Makes the folder and takes its lease while it lives; refuses with
// Error(usage) a folder that another process writes to, and one that holds a
// run already when nothing is to be resumed. A folder that it made is removed
// with its log again unless kept: a run that is refused leaves no trace.
class RunFolder {
public:
    RunFolder(const RunConfig& run, Resume resume);
    void keep() { provisional_.keep(); }
    // Before something is written there: makes a folder that was moved or removed anew, with a warning. Error(usage)
    // where another stands in its place, which may be another run's.
    void require_ours();

private:
    Provisional provisional_;
    std::string path_;
    std::optional<Lease> lease_;
};

// The resolved run file and the provenance, before step 1.
void archive(const RunConfig& run, const std::string& provenance_json);

// Step folder to start from, its files compared with their hashes (each block on one rank); empty for a fresh start.
// Collective, the same on all ranks. Of a run's own checkpoints the newest intact one: incomplete and damaged ones are
// passed over with a warning each. Throws Error(checkpoint) where one is asked for and there is none, and where there
// are some but none that is intact (a fresh start would overwrite them); where `choice` names a damaged one the message
// names the newest that is intact. Throws Error(usage) where it names another run's and this run has checkpoints of its
// own.
std::string choose_checkpoint(Communicator& world, const RunConfig& run, const ResumeChoice& choice);

// Collective: the files of a step folder, the same on all ranks, against their hashes. Error(checkpoint) on every rank
// where one is damaged; it begins with `what` and names the newest checkpoint beside it, or in the folder `also` (may
// be empty), that is intact.
void require_intact(Communicator& world, const std::string& what, const std::string& checkpoint,
                    const std::string& also);

}  // namespace ogrom
