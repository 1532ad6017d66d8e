// The device of this rank and the threads that serve it. Takes the rank's place on its node, not the global rank.
#pragma once
#include <string>
#include <vector>

#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom {

struct Device {
    Backend backend = Backend::cpu;
    int index = 0;  // device ordinal on the node (GPU); 0 on the CPU
    std::string reason{};
    std::string name{}, uuid{};  // of a GPU
    int capability = 0;          // of a GPU: 10 x major + minor compute capability
    std::string pci{};           // of a GPU: "0000:1b:00.0", its place on the PCI bus
    i64 memory_bytes = 0;        // of a GPU
    int cuda_version = 0;        // that the driver of the GPU offers: 1000 x major + 10 x minor

    [[nodiscard]] bool is_gpu() const { return backend == Backend::cuda; }
};
// `wanted`: auto | cpu | cuda. auto: the GPU number `node_rank` (counted round, where there are fewer) if the binary,
// the driver and the machine have one, else the CPU, and `reason` says why. cuda without a GPU, and any other name:
// Error(usage).
Device select_device(const std::string& wanted, int node_rank);

// Threads of a rank: `wanted` when > 0, else this rank's share of the cores that the ranks of its node may use together
// (`node_masks`, one per rank, as affinity_mask() gives them): the same rule for ranks that the launcher bound to cores
// of their own, that share a whole machine, or that share a part of it. Never more than the rank's own cores (`mask`).
int choose_threads(i64 wanted, const std::string& mask, const std::vector<std::string>& node_masks);

}  // namespace ogrom
