// The steps of a save, without a communicator: io/checkpoint_save puts them in order over the ranks.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/io/checkpoint.h"
#include "src/io/checkpoint_placement.h"
#include "src/io/durable.h"

namespace ogrom {

// What one rank writes, without its type: a flat dataset for each group.
struct PartGroup {
    std::string name;
    std::vector<TensorPiece> pieces;       // in the order of the dataset
    std::vector<const std::byte*> memory;  // where each piece stands
    [[nodiscard]] i64 count() const;       // elements
};
struct Part {
    Dtype type = Dtype::fp32;
    std::vector<PartGroup> groups;  // those with no element too: every rank names the same
    [[nodiscard]] bool empty() const;
};
template <class T>
Part make_part(const ParameterLayout& layout, std::span<const StateGroup<const T>> to_write);

// Pieces of a part as a message to rank 0, and their way into its placement.
std::vector<u64> pack(const Part& part);
void unpack(std::span<const u64> message, int writer, Placement& placement);

// `folder`/part-RRRRR.h5, straight from the rank's memory. `part` must not be empty.
FileRecord write_part(const Disk& disk, const std::string& folder, const Part& part, int writer);

// `folder`/checkpoint.h5: header, model, and every tensor whole as a virtual dataset over the parts (fill value NaN).
FileRecord write_master(const Disk& disk, const std::string& folder, const Placement& placement, Dtype type,
                        const CheckpointHeader& header, const ModelConfig& model);

void write_manifest(const Disk& disk, const std::string& folder, const Manifest& manifest);

// fsync of the temporary folder, rename to step-NNNNNNNN (an older one of the same step is exchanged and removed),
// fsync of `directory`, then `latest`.
void commit(const Disk& disk, const std::string& directory, const std::string& temporary, i64 step);

// Bytes of the files that write_part and write_master make: to the byte, from the same images. On the I/O thread.
i64 part_bytes(const Part& part, int writer);
i64 master_bytes(const Placement& placement, Dtype type, const CheckpointHeader& header, const ModelConfig& model);

// Bytes that a save takes from the disk, manifest included, each file in whole blocks of a file system. `parts`: of
// each writer, 0 where it writes none.
i64 checkpoint_bytes(std::span<const i64> parts, i64 master);

// Host memory that a save or load takes beside the state itself: data is written and read in place, so only the
// master's image (about 300 bytes a tensor and mapping), the list of pieces, the hash buffer and HDF5's caches. For the
// memory ledger.
i64 checkpoint_staging_bytes(i64 tensors, i64 groups, int writers);

}  // namespace ogrom
