// A save over the ranks of dp. Comes in: header, state of this rank (the same on every rank of dp). Goes out: a durable
// step folder, or the same Error on every rank and the earlier checkpoints as they were (if only `latest` could not be
// replaced, the new folder stands too: resume goes by folders). HDF5 on the I/O thread, MPI on the caller's.
#include <algorithm>
#include <fmt/format.h>
#include <functional>

#include "src/base/log.h"
#include "src/io/checkpoint.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_shared.h"
#include "src/io/checkpoint_write.h"
#include "src/io/io_thread.h"

namespace ogrom {

namespace {

// Everyone's file record on every rank: bytes, number of blocks, hashes.
std::vector<FileRecord> gather_records(Communicator& dp, const FileRecord& mine) {
    const i64 most = agree_max(dp, static_cast<i64>(mine.blocks.size()), "checkpoint.blocks");
    const i64 words = 2 + 2 * most;
    std::vector<u64> send(static_cast<std::size_t>(words)), all(static_cast<std::size_t>(words * dp.size()));
    send[0] = static_cast<u64>(mine.bytes);
    send[1] = mine.blocks.size();
    for (std::size_t i = 0; i < mine.blocks.size(); ++i) {
        send[2 + 2 * i] = mine.blocks[i].high;
        send[3 + 2 * i] = mine.blocks[i].low;
    }
    dp.all_gather(all.data(), send.data(), words, Dtype::u64, "checkpoint.records").wait();
    std::vector<FileRecord> records;
    for (int rank = 0; rank < dp.size(); ++rank) {
        const u64* row = all.data() + words * rank;
        FileRecord record{part_name(rank), static_cast<i64>(row[0]), {}};
        for (u64 i = 0; i < row[1]; ++i) {
            record.blocks.push_back({row[2 + 2 * i], row[3 + 2 * i]});
        }
        records.push_back(std::move(record));
    }
    return records;
}

// Replicas that have drifted apart would be saved as a mixture that nothing loads again: found here, by name.
void require_equal_weights(Communicator& dp, u64 hash) {
    const std::vector<std::string> all = gather_text(dp, fmt::format("{:016x}", hash), "checkpoint.weight_hash");
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] != all[0]) {
            fail(ExitCode::peer,
                 fmt::format("the weights of data-parallel rank {} (hash {}) are not those of rank 0 ({}); "
                             "nothing was saved",
                             rank, all[rank], all[0]));
        }
    }
}

// Rank 0: room and a temporary folder; its name.
std::string prepare_folder(const Disk& disk, const std::string& directory, i64 step, i64 needed) {
    disk.make_folders(directory);
    for (const std::string& line : remove_stale(disk, directory)) {
        log_info("{}", line);
    }
    disk.require_free(directory, needed);
    const std::string temporary = join_path(directory, temporary_name(step));
    disk.make_folders(temporary);
    return temporary;
}

}  // namespace

template <class T>
void save_checkpoint(Communicator& dp, const std::string& directory, const CheckpointHeader& header,
                     const ParameterLayout& layout, const ModelConfig& model, const StateView<const T>& state,
                     i64 keep_last) {
    const Disk disk;
    const std::vector<LogicalTensor> tensors = logical_tensors(layout);
    const FlatState flat = flat_state(state, layout);
    const bool first = dp.rank() == 0;
    require_equal_weights(dp, header.weight_hash);
    std::string temporary;
    try {
        temporary = share_result(dp, "checkpoint.folder", [&] {
            const i64 needed = checkpoint_bytes(tensors, static_cast<i64>(flat.groups.size()), flat.type, dp.size());
            return first ? prepare_folder(disk, directory, header.step, needed) : std::string();
        });
        FileRecord part;
        share_result(dp, "checkpoint.part", [&] {
            part = on_io_thread([&] { return write_part(disk, temporary, tensors, flat, dp.rank(), dp.size()); });
            disk.sync_folder(temporary);
            return std::string();
        });
        Manifest manifest{1, header.step, gather_records(dp, part)};
        share_result(dp, "checkpoint.commit", [&] {
            if (first) {
                manifest.files.push_back(on_io_thread(
                    [&] { return write_master(disk, temporary, tensors, flat, header, model, dp.size()); }));
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
        throw;
    }
    // The new checkpoint is durable: failing to remove an old one is no failed save.
    if (first) {
        try {
            prune(disk, directory, header.step, keep_last);
        } catch (const Error& error) {
            log_warning("an old checkpoint could not be removed: {}", error.what());
        }
    }
}
template void save_checkpoint<float>(Communicator&, const std::string&, const CheckpointHeader&, const ParameterLayout&,
                                     const ModelConfig&, const StateView<const float>&, i64);
template void save_checkpoint<double>(Communicator&, const std::string&, const CheckpointHeader&,
                                      const ParameterLayout&, const ModelConfig&, const StateView<const double>&, i64);

}  // namespace ogrom
