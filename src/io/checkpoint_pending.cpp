#include "src/io/checkpoint_pending.h"

#include <chrono>

#include "src/base/kill_point.h"
#include "src/base/log.h"
#include "src/base/timer.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_shared.h"

namespace ogrom {

namespace {

// On rank 0: the records of all that wrote a part (bytes, number of blocks, hashes), in rank order.
std::vector<FileRecord> gather_records(Communicator& world, const std::optional<FileRecord>& mine) {
    std::vector<u64> words;
    if (mine) {
        words.push_back(static_cast<u64>(mine->bytes));
        for (const BlockHash& hash : mine->blocks) {
            words.push_back(hash.high);
            words.push_back(hash.low);
        }
    }
    std::vector<FileRecord> records;
    int rank = 0;
    for (const std::vector<u64>& row : gather_words(world, words, Receivers::first, "checkpoint.records")) {
        if (!row.empty()) {
            FileRecord record{part_name(rank), static_cast<i64>(row[0]), {}};
            for (std::size_t i = 1; i + 1 < row.size(); i += 2) {
                record.blocks.push_back({row[i], row[i + 1]});
            }
            records.push_back(std::move(record));
        }
        ++rank;
    }
    return records;
}

// Rank 0: room and a temporary folder; its name.
std::string prepare_folder(const Disk& disk, const std::string& directory, i64 step, i64 needed) {
    disk.make_folders(directory);
    for (const std::string& line : remove_stale(disk, directory)) {
        log_info("{}", line);
    }
    remove_left_over(join_path(directory, "latest"));  // the run's lock is held: nobody else writes it
    disk.require_free(directory, needed);
    const std::string temporary = join_path(directory, temporary_name(step));
    disk.make_folders(temporary);
    return temporary;
}

}  // namespace

PendingSave::PendingSave(Communicator& world, std::string directory, i64 step, SaveDraft draft, SaveOptions options)
    : world_(world),
      directory_(std::move(directory)),
      step_(step),
      draft_(std::move(draft)),
      options_(std::move(options)),
      thread_(options_.thread != nullptr ? *options_.thread : io_thread()) {
    temporary_ = share_result(world_, "checkpoint.folder", [&] {
        if (world_.rank() != 0) {
            return std::string();
        }
        if (options_.require_ours) {
            options_.require_ours();
        }
        return prepare_folder(options_.disk, directory_, step_, draft_.bytes);
    });
    if (draft_.own) {
        start([this] {
            written_ = write_file(options_.disk, temporary_, *draft_.own);
            options_.disk.sync_folder(temporary_);
        });
    }
}

PendingSave::~PendingSave() {
    if (work_.valid()) {
        if (Pace* const pace = options_.disk.pace()) {
            pace->cancel();
        }
        work_.wait();  // it reads memory that may go with us
    }
}

void PendingSave::start(std::function<void()> work) {
    work_ = thread_.submit([this, work = std::move(work)] {
        const Timer timer;
        work();
        task_s_ = timer.seconds();
    });
}

bool PendingSave::busy() const {
    return work_.valid() && work_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

bool PendingSave::advance() {
    OGROM_ASSERT(stage_ != Stage::over);
    const auto wait_for_work = [&] {
        if (work_.valid()) {
            work_.get();
            work_s_ += std::exchange(task_s_, 0.0);
        }
        return std::string();
    };
    try {
        if (stage_ == Stage::parts) {
            share_result(world_, "checkpoint.part", wait_for_work);
            join_parts();
            stage_ = Stage::commit;
        } else {
            share_result(world_, "checkpoint.commit", wait_for_work);
            stage_ = Stage::over;
        }
    } catch (const Error& error) {
        stage_ = Stage::over;
        if (error.code() != ExitCode::peer) {  // every rank is here with the same verdict, and none writes any more
            discard();
            world_.barrier("checkpoint.discarded").wait();  // the first to leave may end the job
        }
        throw;
    }
    return stage_ == Stage::over;
}

void PendingSave::finish() {
    hurry();
    while (!advance()) {
    }
}

void PendingSave::hurry() {
    if (Pace* const pace = options_.disk.pace()) {
        pace->hurry();
    }
}

void PendingSave::join_parts() {
    Manifest manifest{1, step_, gather_records(world_, written_)};
    kill_point("gathered", temporary_);
    if (world_.rank() == 0) {
        start([this, manifest = std::move(manifest)]() mutable { commit_files(std::move(manifest)); });
    }
}

// Rank 0, on the I/O thread.
void PendingSave::commit_files(Manifest manifest) {
    const Disk& disk = options_.disk;
    if (options_.before_commit) {
        options_.before_commit();
    }
    manifest.files.push_back(write_file(disk, temporary_, *draft_.master));
    if (options_.require_ours) {
        options_.require_ours();
    }
    write_manifest(disk, temporary_, manifest);
    for (const std::string& line : set_aside_later(disk, directory_, step_)) {
        log_warning("{}", line);
    }
    commit(disk, directory_, temporary_, step_);
    // The new checkpoint is durable: failing to remove an old one is no failed save.
    try {
        prune(disk, directory_, step_, options_.keep);
    } catch (const Error& error) {
        log_warning("an old checkpoint could not be removed: {}", error.what());
    }
}

// Whatever is left under the temporary name goes.
void PendingSave::discard() noexcept {
    if (world_.rank() == 0) {
        try {
            options_.disk.remove_tree(temporary_);
        } catch (const std::exception& error) {
            log_warning("{}", error.what());
        }
    }
}

}  // namespace ogrom
