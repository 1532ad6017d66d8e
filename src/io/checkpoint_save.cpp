// A save over all ranks. Comes in: header, and what each rank alone is to write. Goes out: a durable step folder, or
// the same Error on every rank and the earlier checkpoints as they were
// (that `latest` cannot be replaced is a warning: resume goes by folders). HDF5 on the I/O thread, MPI on the caller's.
// Next: io/checkpoint_pending.cpp; the way back is io/checkpoint_load.cpp.
#include <algorithm>
#include <fmt/format.h>

#include "src/base/kill_point.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/io/checkpoint.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_pending.h"
#include "src/io/checkpoint_shared.h"
#include "src/io/checkpoint_write.h"
#include "src/io/io_thread.h"

namespace ogrom {

namespace {

// Rank 0: who writes what, checked to be everything once.
void collect(const std::vector<std::vector<u64>>& messages, Placement& placement) {
    for (std::size_t rank = 0; rank < messages.size(); ++rank) {
        unpack(messages[rank], static_cast<int>(rank), placement);
    }
    require(messages.empty() || !placement.groups().empty(), ExitCode::checkpoint,
            "no rank names any state to write; nothing was saved");
    placement.require_whole();
}

template <class T>
SaveDraft draft_save(Communicator& world, const CheckpointHeader& header, const ParameterLayout& layout,
                     const ModelConfig& model, std::span<const StateGroup<const T>> to_write, IoThread& thread) {
    SaveDraft draft;
    Placement placement(layout.table());
    u64 own = 0;
    share_result(world, "checkpoint.pieces", [&] {
        draft.part = make_part<T>(layout, to_write);
        if (!draft.part.empty()) {
            draft.own = thread.submit([&] { return lay_out_part(draft.part, world.rank()); }).get();
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
            draft.master =
                thread.submit([&] { return lay_out_master(placement, draft.part.type, header, model); }).get();
            draft.bytes = checkpoint_bytes(parts, draft.master->bytes());
        }
        return std::string();
    });
    return draft;
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
                  std::span<const StateGroup<const T>> to_write, const std::function<i64()>& at_once) {
    const SaveDraft draft = draft_save<T>(world, header, layout, model, to_write, io_thread());
    share_result(world, "checkpoint.room", [&] {
        if (world.rank() == 0) {
            Disk().require_free(folder, draft.bytes);
            const i64 wanted = at_once ? at_once() : 1;
            const i64 room = wanted > 1 ? free_bytes(folder) / std::max<i64>(1, draft.bytes) : 1;
            if (room < wanted) {
                log_warning(
                    "{}: {} more checkpoints of {} will stand here at once, the one in the making included; there "
                    "is room for {}: a later save will fail. Free space, or lower checkpoint.keep_last",
                    folder, wanted, human_bytes(draft.bytes), room);
            }
        }
        return std::string();
    });
}
template void require_room<float>(Communicator&, const std::string&, const CheckpointHeader&, const ParameterLayout&,
                                  const ModelConfig&, std::span<const StateGroup<const float>>,
                                  const std::function<i64()>&);
template void require_room<double>(Communicator&, const std::string&, const CheckpointHeader&, const ParameterLayout&,
                                   const ModelConfig&, std::span<const StateGroup<const double>>,
                                   const std::function<i64()>&);

template <class T>
std::unique_ptr<PendingSave> begin_save(Communicator& world, const std::string& directory,
                                        const CheckpointHeader& header, const ParameterLayout& layout,
                                        const ModelConfig& model, std::span<const StateGroup<const T>> to_write,
                                        SaveOptions options) {
    kill_point("draft", step_name(header.step) + ".tmp-");
    IoThread& thread = options.thread != nullptr ? *options.thread : io_thread();
    SaveDraft draft = draft_save<T>(world, header, layout, model, to_write, thread);
    return std::make_unique<PendingSave>(world, directory, header.step, std::move(draft), std::move(options));
}
template std::unique_ptr<PendingSave> begin_save<float>(Communicator&, const std::string&, const CheckpointHeader&,
                                                        const ParameterLayout&, const ModelConfig&,
                                                        std::span<const StateGroup<const float>>, SaveOptions);
template std::unique_ptr<PendingSave> begin_save<double>(Communicator&, const std::string&, const CheckpointHeader&,
                                                         const ParameterLayout&, const ModelConfig&,
                                                         std::span<const StateGroup<const double>>, SaveOptions);

template <class T>
void save_checkpoint(Communicator& world, const std::string& directory, const CheckpointHeader& header,
                     const ParameterLayout& layout, const ModelConfig& model,
                     std::span<const StateGroup<const T>> to_write, const Retention& keep) {
    begin_save<T>(world, directory, header, layout, model, to_write, {.keep = keep})->finish();
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
