// The device of this rank and the threads that serve it. Takes the rank's place on its node, not the global rank.
#pragma once
#include <string>

#include "kernels/common/stream.h"

namespace ogrom {

struct Device {
    Backend backend = Backend::cpu;
    int index = 0;  // device ordinal on the node (GPU); 0 on the CPU
    std::string reason;
};
// `wanted`: auto | cpu | cuda. CUDA in a build without it is a configuration error.
Device select_device(const std::string& wanted, int node_rank);

// Threads of a rank: `wanted` when > 0, else the cores this process may use, divided by the ranks of the node unless
// the launcher has already bound each rank to cores of its own.
int choose_threads(long wanted, int usable_cores, int node_cores, int node_ranks);

}  // namespace ogrom
