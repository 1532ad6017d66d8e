// The steps of a save, without a communicator: io/checkpoint_save puts them in order over the ranks.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/io/checkpoint.h"
#include "src/io/checkpoint_placement.h"
#include "src/io/durable.h"

namespace ogrom {

namespace h5 {
class Image;
}

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

// Bytes of a rank's own memory that stand at a place of a file.
struct Placed {
    i64 offset = 0;
    std::span<const std::byte> bytes;
};
// A file of a save as it will stand on the disk, before anything is written: what HDF5 makes of it, and the rank's
// memory in between. Laid out and written on the I/O thread.
struct PlannedFile {
    std::string name;
    std::shared_ptr<const h5::Image> image;
    std::vector<Placed> placed;
    [[nodiscard]] i64 bytes() const;
};
// part-RRRRR.h5. `part` must not be empty, and its memory must outlive the file.
PlannedFile lay_out_part(const Part& part, int writer);
// checkpoint.h5: header, model, and every tensor whole as a virtual dataset over the parts (fill value NaN).
PlannedFile lay_out_master(const Placement& placement, Dtype type, const CheckpointHeader& header,
                           const ModelConfig& model);
// Writes the image front to back, hashed; at each of `offsets` (ascending) `append` puts the bytes that HDF5 reserved.
FileRecord write_around(const Disk& disk, const std::string& path, const h5::Image& image, std::span<const i64> offsets,
                        const std::function<void(std::size_t stretch, DurableFile& file)>& append);
FileRecord write_file(const Disk& disk, const std::string& folder, const PlannedFile& file);

void write_manifest(const Disk& disk, const std::string& folder, const Manifest& manifest);

// fsync of the temporary folder, rename to step-NNNNNNNN, fsync of `directory`, then `latest`. An older one of the same
// step is exchanged and, where it holds another state, set aside; else removed.
void commit(const Disk& disk, const std::string& directory, const std::string& temporary, i64 step);

// Bytes that a save takes from the disk, manifest included, each file in whole blocks of a file system. `parts`: of
// each writer, 0 where it writes none.
i64 checkpoint_bytes(std::span<const i64> parts, i64 master);

// Host memory that a save or load takes beside the state itself: data is written and read in place, so only the
// master's image (about 300 bytes a tensor and mapping), the list of pieces, the hash buffer and HDF5's caches. For the
// memory ledger.
i64 checkpoint_staging_bytes(i64 tensors, i64 groups, int writers);

}  // namespace ogrom
