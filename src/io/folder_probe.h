// Whether a folder does what runs need of it, and how fast: written by all ranks with fsync; renames that every rank
// sees whole; files and locks of one host seen by the others.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/base/finding.h"
#include "src/comm/communicator.h"
#include "src/comm/probe.h"

namespace ogrom {

struct FolderProbe {
    std::string asked;   // as it was given
    std::string folder;  // that was probed: the one asked for, or the nearest above it that exists
    i64 free_bytes = 0;
    i64 written_bytes = 0;                 // by all ranks together
    double write_bytes_per_s = 0;          // of all, from the first byte to the last fsync
    std::vector<double> rank_bytes_per_s;  // of each rank's own file
    bool direct = false;                   // files can go past the page cache
    double seen_after_s = 0;               // the longest time until a rank saw what another had made
    i64 replacements = 0, reads = 0;       // of one file under one name, on rank 0 and by all
    bool locks = false;                    // flock(2) excludes, on all ranks
    std::vector<Finding> findings;         // faults with ExitCode::checkpoint
};

struct FolderProbeOptions {
    i64 bytes_each = i64{64} << 20;  // of each rank's file
    double write_seconds = 1;        // a rank ends its file early after that
    double patience_s = 10;          // for what other ranks made
};

// Collective over `ranks` (host memory). Makes a folder ".ogrom-check-<host>-<pid>" there and removes it, and those
// that dead processes of this host left. A folder that cannot be used is a finding, never an exception.
FolderProbe probe_folder(Communicator& ranks, const std::string& folder, std::span<const std::string> hosts,
                         const FolderProbeOptions& options);

}  // namespace ogrom
