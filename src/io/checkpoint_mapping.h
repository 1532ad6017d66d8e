// Where the values of a tensor stand in the parts, and their way from there to memory without HDF5 between: HDF5 reads
// narrow columns through a buffer (2 to 10 times the bytes that tensor ranks need), and holds each part that a tensor
// reaches open, 0.5 MiB and a file descriptor apiece, until the tensor is closed.
// Comes in: an open dataset of a checked master file. Goes out: a rectangle of its values. Next: io/checkpoint_load.cpp
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "src/io/checkpoint_layout.h"
#include "src/io/hdf5.h"

namespace ogrom {

// A selection of one or two extents that is one block without gaps, as [first, first + length) of each of `extents`.
struct Box {
    std::vector<i64> extents, first, length;
    [[nodiscard]] TensorPiece as_piece() const;
};
std::optional<Box> box_of(hid_t space);  // nothing where the selection is another

// A rectangle of a tensor (source: element of the part's dataset with which it begins) and the part that holds it,
// row-major without gaps.
struct MappedPiece {
    TensorPiece block;
    std::string part, dataset;
};

// The mappings of a virtual dataset of one or two extents that meet `wanted`; std::nullopt where the dataset is not
// virtual, or made of other selections than save_checkpoint makes.
std::optional<std::vector<MappedPiece>> mappings_within(hid_t dataset, const TensorPiece& wanted,
                                                        const std::string& file, const std::string& item);

// Reads `wanted` of the dataset `item` of the master `file` to `to`, row-major without gaps, straight from the parts
// beside it. False, and nothing is promised of `to`, where that does not do (another type than `type`, other
// selections, parts with another storage). Throws Error(checkpoint) where a part is not given.
bool read_mapped(hid_t dataset, const std::string& file, const std::string& item, const TensorPiece& wanted, Dtype type,
                 std::byte* to);

bool is_virtual(hid_t dataset, const std::string& file, const std::string& item);

// The same of a virtual dataset of fp32 or fp64, turned into `type` (one of them) where it is of the other. All of it,
// or Error(checkpoint): HDF5, asked for a virtual dataset, says nothing where a part is gone or cannot be opened (no
// more descriptors), and gives NaN.
void read_virtual(hid_t dataset, const std::string& file, const std::string& item, const TensorPiece& wanted,
                  Dtype type, std::byte* to);

}  // namespace ogrom
