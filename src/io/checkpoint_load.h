// The steps of a load, without a communicator.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/io/checkpoint.h"
#include "src/io/checkpoint_layout.h"
#include "src/io/hdf5.h"
#include "src/io/manifest.h"

namespace ogrom {

// Where state of the checkpoint goes, without its type.
struct LoadGroup {
    std::string name;
    std::vector<HeldRange<std::byte>> ranges;
};
struct LoadTarget {
    Dtype type = Dtype::fp32;
    std::vector<LoadGroup> groups;
    // Also refuse groups of state that the caller did not ask for: set when more than the weights is asked for (a
    // training run); `sample` asks for weights alone and leaves moments in the file.
    bool training = false;
    Types types = Types::same;
};
template <class T>
LoadTarget load_target(std::span<const StateGroup<T>> wanted, const ParameterLayout& layout);

// Differences between a checkpoint and what is asked for, and the tensors that match.
struct Match {
    std::vector<std::string> missing, unexpected, mismatched;
    std::vector<std::vector<bool>> usable;  // [group][tensor id]
    [[nodiscard]] bool exact() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
    [[nodiscard]] std::vector<std::string> lines() const;
};
// Over the whole model, so that every rank comes to the same verdict.
Match match_tensors(hid_t file_id, const std::string& file, std::span<const Parameter> table, const LoadTarget& target,
                    const Manifest& manifest);

struct LoadResult {
    std::vector<std::string> left_out;  // empty when exact
    i64 bytes_read = 0;
};
// Fills the target from the master of `folder`. On the I/O thread.
LoadResult load_state(const std::string& folder, const Manifest& manifest, const ParameterLayout& layout,
                      const LoadTarget& target, bool strict);

// Puts a rectangle of a tensor to `to`, row-major without gaps.
using ReadPiece = std::function<void(const Parameter& tensor, const TensorPiece& piece, std::byte* to)>;

// Fills a range of a rank, of values of `type`, from a source of rectangles, in the order of the buffer: the tensors
// that are `usable` (by the id of the tensor under whose name they are stored), a tied copy from its source, their
// padding 0; the rest stays as it is. Returns the bytes read.
i64 fill_range(const ParameterLayout& layout, const HeldRange<std::byte>& range, const std::vector<bool>& usable,
               Dtype type, const ReadPiece& read);

// True for groups at the root of a checkpoint that hold state: all but header, extra and model.
bool holds_state(const std::string& group);

// Refuses parts whose datasets do not hold their own data in one piece; every `shares`th part from `share` on.
void check_parts(const std::string& folder, const Manifest& manifest, int share, int shares);

// Refuses a dataset that reads from anywhere but listed parts of its own folder, or whose elements do not each stand in
// exactly one place of them.
void check_sources(hid_t dataset, const std::string& file, const std::string& item, const Manifest& manifest);

// Reads a whole dataset in pieces of rows below 256 MiB into `to`, as `type`.
void read_dataset(hid_t dataset, const std::string& file, const std::string& item, Dtype type, std::byte* to);

// A rectangle of a tensor's dataset, row-major without gaps: straight from the parts (io/checkpoint_mapping.h), by HDF5
// where it is not virtual (a master that a tool has copied whole).
void read_piece(hid_t dataset, const std::string& file, const std::string& item, const Parameter& tensor,
                const TensorPiece& piece, Dtype type, std::byte* to);

}  // namespace ogrom
