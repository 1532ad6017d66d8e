// Waiting on the host for a GPU that may itself wait for other ranks.
#pragma once
#include "kernels/common/stream.h"

#include "src/comm/communicator.h"

namespace ogrom {

// Until everything enqueued on `stream` so far is done, as comm/wait: `world` (a communicator over MPI, or of one rank)
// moves what is under way, NCCL is asked for errors, and the watchdog sees that this rank waits. Throws Error(peer).
// Nothing on the CPU.
void wait_for_device(Communicator& world, Stream stream);

}  // namespace ogrom
