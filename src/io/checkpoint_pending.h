// A save under way. Files are written by the I/O thread while the caller goes on; MPI stays on the caller's thread:
//   begin (all ranks, checkpoint_save: draft, folder) -> each part is written -> [agreed that all are there] -> rank 0
//   writes master and manifest, renames, prunes -> [agreed that it is done]
// A caller that has nothing else to do calls finish(); one that goes on training asks busy() between its steps and,
// once no rank is busy, lets all ranks advance(). Both take the same way, with the same faults in the same words.
// Comes in: a draft whose memory stays as it is until the save is over. Goes out: a durable step folder. Next:
// io/checkpoint_write.cpp.
#pragma once
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "src/io/checkpoint.h"
#include "src/io/checkpoint_write.h"
#include "src/io/io_thread.h"

namespace ogrom {

struct SaveOptions {
    Retention keep = 0;
    Disk disk = {};  // its pace holds for the parts and the master
    // Rank 0, before the folder is written to and again before the save gets its name: whether the folder is still
    // ours. What it throws is a fault of the save.
    std::function<void()> require_ours = {};
    // Rank 0, on the I/O thread, once all parts are on the disk: figures beside the checkpoint. What it throws is a
    // fault of the save (Metrics::publication warns instead: the state is worth more than its figures).
    std::function<void()> before_commit = {};
    IoThread* thread = nullptr;  // the process's own where null (a forked test has none)
};

// The files of a save before anything is written: this rank's part, and on rank 0 the master and the bytes that all
// files take.
struct SaveDraft {
    Part part;
    std::optional<PlannedFile> own, master;
    i64 bytes = 0;
};

class PendingSave {
public:
    // Collective: room, the temporary folder. This rank's part is on its way on return.
    PendingSave(Communicator& world, std::string directory, i64 step, SaveDraft draft, SaveOptions options);
    // Of a save that is not over: ends the writing at the next slice and leaves the temporary folder, as a kill would,
    // for remove_stale.
    ~PendingSave();
    PendingSave(const PendingSave&) = delete;
    PendingSave& operator=(const PendingSave&) = delete;

    // Whether work of this rank is under way in the background. Says nothing of other ranks.
    [[nodiscard]] bool busy() const;
    // Collective: waits for this rank's work, then all ranks go on to the next stage. True once the checkpoint is
    // durable. Throws Error(checkpoint) on every rank if it failed on any: the temporary folder is gone then, the
    // previous checkpoint stays.
    bool advance();
    void finish();  // Collective: until durable, without the pauses of the disk's pace
    void hurry();   // no pauses from now on

    [[nodiscard]] i64 step() const { return step_; }
    [[nodiscard]] i64 bytes() const { return draft_.bytes; }  // of all files; on rank 0
    [[nodiscard]] double work_s() const { return work_s_; }   // of the background, pauses left out, so far

private:
    enum class Stage { parts, commit, over };
    void start(std::function<void()> work);
    void join_parts();
    void commit_files(Manifest manifest);
    void discard() noexcept;

    Communicator& world_;
    const std::string directory_;
    const i64 step_;
    SaveDraft draft_;
    SaveOptions options_;
    IoThread& thread_;
    std::string temporary_;
    Stage stage_ = Stage::parts;
    std::optional<FileRecord> written_;  // of this rank's part; set by the I/O thread, read once it is done
    double task_s_ = 0, work_s_ = 0;     // the first likewise
    mutable std::future<void> work_;     // of the present stage; invalid where this rank has none
};

// Collective: drafts the files of a save and begins it. As save_checkpoint; the memory of `to_write` must stay as it is
// until the save is over.
template <class T>
std::unique_ptr<PendingSave> begin_save(Communicator& world, const std::string& directory,
                                        const CheckpointHeader& header, const ParameterLayout& layout,
                                        const ModelConfig& model, std::span<const StateGroup<const T>> to_write,
                                        SaveOptions options);

}  // namespace ogrom
