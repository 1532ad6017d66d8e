// The collectives and messages of a communicator for device memory that MPI cannot reach: through page-locked host
// memory and MPI between the ranks. Works with any number of ranks on one GPU. On CPU streams it carries host memory
// the same way, which is how it is tested where there is no GPU.
// Results: `fixed` order the same bits as on host memory; `any` order may differ where a call is cut into pieces.
#pragma once
#include <memory>
#include <string>

#include "src/comm/communicator.h"
#include "src/comm/transport.h"

namespace ogrom {

class MpiCommunicator;

// Bytes of staging below which no call would fit.
i64 least_staging(int size);

// Collective over `world`: the ranks of `colour` in the order of `key`; null for a rank with colour < 0. More than one
// rank. Takes axes.staging_bytes of host memory.
std::unique_ptr<Communicator> make_staged_communicator(MpiCommunicator& world, int colour, int key,
                                                       const std::string& name, CollectiveCheck check,
                                                       const AxisOptions& axes);

}  // namespace ogrom
