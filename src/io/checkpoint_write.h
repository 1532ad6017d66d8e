// The steps of a save, without a communicator: io/checkpoint_save puts them in order over the ranks.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/io/checkpoint.h"
#include "src/io/checkpoint_layout.h"
#include "src/io/durable.h"

namespace ogrom {

// State of this rank without its type: groups of the file and where their flat buffers are.
struct StateGroup {
    std::string name;  // weights, moment1, moment2
    const std::byte* data = nullptr;
};
struct FlatState {
    Dtype type = Dtype::fp32;
    std::vector<StateGroup> groups;
};
template <class T>
FlatState flat_state(const StateView<const T>& state, const ParameterLayout& layout);

// `folder`/part-RRRRR.h5 with one flat dataset per group: this writer's range, straight from the rank's memory.
FileRecord write_part(const Disk& disk, const std::string& folder, const std::vector<LogicalTensor>& tensors,
                      const FlatState& state, int writer, int writers);

// `folder`/checkpoint.h5: header, model, and every tensor whole as a virtual dataset over the parts (fill value NaN).
FileRecord write_master(const Disk& disk, const std::string& folder, const std::vector<LogicalTensor>& tensors,
                        const FlatState& state, const CheckpointHeader& header, const ModelConfig& model, int writers);

void write_manifest(const Disk& disk, const std::string& folder, const Manifest& manifest);

// fsync of the temporary folder, rename to step-NNNNNNNN (an older one of the same step is exchanged and removed),
// fsync of `directory`, then `latest`.
void commit(const Disk& disk, const std::string& directory, const std::string& temporary, i64 step);

// Bytes that a save will put on the disk, rounded up (free space is checked against it).
i64 checkpoint_bytes(const std::vector<LogicalTensor>& tensors, i64 groups, Dtype type, int writers);

// Host memory that a save or load takes beside the state itself: data is written and read in place, so only the
// master's image (about 300 bytes a tensor and mapping), the hash buffer and HDF5's caches. For the memory ledger.
i64 checkpoint_staging_bytes(i64 tensors, i64 groups, int writers);

}  // namespace ogrom
