// A save over all ranks. Comes in: header, and what each rank alone is to write. Goes out: a durable step folder, or
// the same Error on every rank and the earlier checkpoints as they were (if only `latest` could not be replaced, the
// new folder stands too: resume goes by folders). HDF5 on the I/O thread, MPI on the caller's. Next:
// io/checkpoint_write.cpp; the way back is io/checkpoint_load.cpp.
#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "src/base/kill_point.h"
#include "src/base/log.h"
#include "src/io/checkpoint.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_shared.h"
#include "src/io/checkpoint_write.h"
#include "src/io/io_thread.h"

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

// Rank 0: who writes what, checked to be everything once.
void collect(const std::vector<std::vector<u64>>& messages, Placement& placement) {
    for (std::size_t rank = 0; rank < messages.size(); ++rank) {
        unpack(messages[rank], static_cast<int>(rank), placement);
    }
    require(messages.empty() || !placement.groups().empty(), ExitCode::checkpoint,
            "no rank names any state to write; nothing was saved");
    placement.require_whole();
}

// The files of a save before anything is written: this rank's part, and on rank 0 the master and the bytes that all
// files take.
struct Draft {
    Part part;
    std::optional<PlannedFile> own, master;
    i64 bytes = 0;
};

template <class T>
Draft draft_save(Communicator& world, const CheckpointHeader& header, const ParameterLayout& layout,
                 const ModelConfig& model, std::span<const StateGroup<const T>> to_write) {
    Draft draft;
    Placement placement(layout.table());
    u64 own = 0;
    share_result(world, "checkpoint.pieces", [&] {
        draft.part = make_part<T>(layout, to_write);
        if (!draft.part.empty()) {
            draft.own = on_io_thread([&] { return lay_out_part(draft.part, world.rank()); });
            own = static_cast<u64>(draft.own->bytes());
        }
        return std::string();
    });
    const auto messages = gather_words(world, pack(draft.part), Receivers::first, "checkpoint.placement");
    std::vector<i64> parts;
    for (const std::vector<u64>& bytes : gather_words(world, {&own, 1}, Receivers::first, "checkpoint.bytes")) {
        parts.push_back(static_cast<i64>(bytes[0]));
    }
    share_result(world, "checkpoint.placed", [&] {
        collect(messages, placement);
        if (world.rank() == 0) {
            draft.master = on_io_thread([&] { return lay_out_master(placement, draft.part.type, header, model); });
            draft.bytes = checkpoint_bytes(parts, draft.master->bytes());
        }
        return std::string();
    });
    return draft;
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

void require_equal_replicas(Communicator& replicas, u64 hash, const std::string& what) {
    const std::vector<std::string> all = gather_text(replicas, fmt::format("{:016x}", hash), "checkpoint.replicas");
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] != all[0]) {
            fail(ExitCode::peer, fmt::format("{} of rank {} of axis {} (hash {}) are not those of its rank 0 ({}); "
                                             "nothing was saved",
                                             what, rank, replicas.name(), all[rank], all[0]));
        }
    }
}

template <class T>
void require_room(Communicator& world, const std::string& folder, const CheckpointHeader& header,
                  const ParameterLayout& layout, const ModelConfig& model,
                  std::span<const StateGroup<const T>> to_write) {
    const Draft draft = draft_save<T>(world, header, layout, model, to_write);
    share_result(world, "checkpoint.room", [&] {
        if (world.rank() == 0) {
            Disk().require_free(folder, draft.bytes);
        }
        return std::string();
    });
}
template void require_room<float>(Communicator&, const std::string&, const CheckpointHeader&, const ParameterLayout&,
                                  const ModelConfig&, std::span<const StateGroup<const float>>);
template void require_room<double>(Communicator&, const std::string&, const CheckpointHeader&, const ParameterLayout&,
                                   const ModelConfig&, std::span<const StateGroup<const double>>);

template <class T>
void save_checkpoint(Communicator& world, const std::string& directory, const CheckpointHeader& header,
                     const ParameterLayout& layout, const ModelConfig& model,
                     std::span<const StateGroup<const T>> to_write, const Retention& keep) {
    const Disk disk;
    const bool first = world.rank() == 0;
    kill_point("draft", step_name(header.step) + ".tmp-");
    const Draft draft = draft_save<T>(world, header, layout, model, to_write);
    std::string temporary;
    try {
        temporary = share_result(world, "checkpoint.folder", [&] {
            return first ? prepare_folder(disk, directory, header.step, draft.bytes) : std::string();
        });
        std::optional<FileRecord> written;
        share_result(world, "checkpoint.part", [&] {
            if (draft.own) {
                written = on_io_thread([&] { return write_file(disk, temporary, *draft.own); });
                disk.sync_folder(temporary);
            }
            return std::string();
        });
        Manifest manifest{1, header.step, gather_records(world, written)};
        kill_point("gathered", temporary);
        share_result(world, "checkpoint.commit", [&] {
            if (first) {
                manifest.files.push_back(on_io_thread([&] { return write_file(disk, temporary, *draft.master); }));
                write_manifest(disk, temporary, manifest);
                for (const std::string& line : set_aside_later(disk, directory, header.step)) {
                    log_warning("{}", line);
                }
                commit(disk, directory, temporary, header.step);
            }
            return std::string();
        });
    } catch (const Error&) {
        // Every rank is here with the same verdict; whatever is left under the temporary name goes.
        if (first && !temporary.empty()) {
            try {
                disk.remove_tree(temporary);
            } catch (const Error& error) {
                log_warning("{}", error.what());
            }
        }
        // The first rank that ends takes the others with it: not before the folder is gone.
        world.barrier("checkpoint.removed").wait();
        throw;
    }
    // The new checkpoint is durable: failing to remove an old one is no failed save.
    if (first) {
        try {
            prune(disk, directory, header.step, keep);
        } catch (const Error& error) {
            log_warning("an old checkpoint could not be removed: {}", error.what());
        }
    }
}
template void save_checkpoint<float>(Communicator&, const std::string&, const CheckpointHeader&, const ParameterLayout&,
                                     const ModelConfig&, std::span<const StateGroup<const float>>, const Retention&);
template void save_checkpoint<double>(Communicator&, const std::string&, const CheckpointHeader&,
                                      const ParameterLayout&, const ModelConfig&,
                                      std::span<const StateGroup<const double>>, const Retention&);

template <class T>
void save_checkpoint(Communicator& dp, const std::string& directory, const CheckpointHeader& header,
                     const ParameterLayout& layout, const ModelConfig& model, const StateView<const T>& state,
                     const Retention& keep) {
    require_equal_replicas(dp, header.weight_hash, "the weights");
    const auto groups = state_groups(state, writer_range(layout.size(), dp.rank(), dp.size()));
    save_checkpoint<T>(dp, directory, header, layout, model, std::span(groups), keep);
}
template void save_checkpoint<float>(Communicator&, const std::string&, const CheckpointHeader&, const ParameterLayout&,
                                     const ModelConfig&, const StateView<const float>&, const Retention&);
template void save_checkpoint<double>(Communicator&, const std::string&, const CheckpointHeader&,
                                      const ParameterLayout&, const ModelConfig&, const StateView<const double>&,
                                      const Retention&);

}  // namespace ogrom
