// What is in an HDF5 file or a checkpoint, for `ogrom inspect`. Sizes in the file are not trusted: tensors are read in
// pieces, and only after their extents were compared with the bytes that the file (and its parts) really have.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "src/io/checkpoint.h"
#include "src/io/manifest.h"

namespace ogrom {

struct InspectEntry {
    std::string path;  // "/weights/final_norm.bias"
    std::string kind;  // dataset | group | link (not followed) | other
    std::string type;  // fp32, fp64, ..., string, other
    std::vector<i64> shape;
    i64 bytes = 0;     // of the values, as stored
    std::string hash;  // XXH3-128 of the values, filled by hash_tensors only
};

// The tree of a file, depth first, links named but not followed; at most 1,000,000 entries.
std::vector<InspectEntry> describe_file(const std::string& path);

// Fills `hash` of every numeric dataset. `limit_bytes`: bytes of the file and its parts together. Error(checkpoint) for
// a dataset that reads from a file that is no part of `manifest` (empty: a file that stands alone).
void hash_tensors(const std::string& path, std::vector<InspectEntry>& entries, i64 limit_bytes,
                  const Manifest& manifest);

struct Difference {
    std::string path;
    std::string note;           // "only in the first", "shape [3] and [4]", ...; empty when the values were compared
    i64 unequal = 0;            // elements whose bits differ
    double max_difference = 0;  // largest |a - b|; NaN when exactly one of a pair is NaN
};
// Tensor by tensor over every group of state (/weights /moment1 ...) of two checkpoints' step folders.
std::vector<Difference> compare_checkpoints(const std::string& first, const std::string& second);

// Manifest hashes, header against manifest, and the weight hash recomputed. Throws Error(checkpoint) at the first
// fault.
void verify_checkpoint(const std::string& folder);

}  // namespace ogrom
