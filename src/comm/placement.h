// Which GPU each rank has, and what may carry an axis between them: decided once, alike on all ranks.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/comm/communicator.h"
#include "src/comm/transport.h"
#include "src/config/run.h"
#include "src/device/select.h"

namespace ogrom {

// What one rank says of itself.
struct RankDevice {
    std::string host;
    std::string uuid;          // of its GPU, whatever number it has in this process; empty = it runs on the CPU
    int nccl_version = 0;      // comm/nccl_library
    std::string nccl_missing;  // empty = NCCL can be used
};

struct TransportChoice {
    AxisTransport transport = AxisTransport::host;
    i64 ranks_per_gpu = 0;  // the most that share one; 0 = no GPU
    std::string reason;     // in words, for the log
};

// Pure. Throws Error(usage): two ranks on one GPU unless run.share_gpu; some ranks with a GPU and some without;
// comm.backend = "nccl" where it cannot be, with the reason.
TransportChoice choose_transport(std::span<const RankDevice> ranks, const CommConfig& comm, const RunSection& run);

// The same, of all ranks of `world`. Where several ranks on one GPU are to use NCCL it sets NCCL_MULTI_RANK_GPU_ENABLE,
// unless the environment has it.
TransportChoice agree_transport(Communicator& world, const std::string& host, const Device& device,
                                const RunConfig& run);

}  // namespace ogrom
