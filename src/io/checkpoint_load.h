// The steps of a load, without a communicator.
#pragma once
#include <string>
#include <vector>

#include "src/io/checkpoint.h"
#include "src/io/checkpoint_layout.h"
#include "src/io/hdf5.h"
#include "src/io/manifest.h"

namespace ogrom {

// Where a group of the checkpoint goes.
struct LoadGroup {
    std::string name;
    std::byte* data = nullptr;
};
struct LoadTarget {
    Dtype type = Dtype::fp32;
    std::vector<LoadGroup> groups;
    // Also refuse groups of state that the caller did not ask for: set when any moment is asked for (a training run);
    // `sample` asks for weights alone and leaves moments in the file.
    bool training = false;
};

// Differences between a checkpoint and what is asked for, and the tensors that match (indices per group).
struct Match {
    std::vector<std::string> missing, unexpected, mismatched;
    std::vector<std::vector<i64>> usable;  // [group][..] indices of tensors
    [[nodiscard]] bool exact() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
    [[nodiscard]] std::vector<std::string> lines() const;
};
Match match_tensors(hid_t file_id, const std::string& file, const std::vector<LogicalTensor>& tensors,
                    const LoadTarget& target, const Manifest& manifest);

// Refuses a dataset that reads from anywhere but listed files of its own folder, or that its sources do not cover.
void check_sources(hid_t dataset, const std::string& file, const std::string& item, const Manifest& manifest);

// Reads a whole dataset in pieces of rows below 256 MiB into `to`, as `type`.
void read_dataset(hid_t dataset, const std::string& file, const std::string& item, Dtype type, std::byte* to);

}  // namespace ogrom
