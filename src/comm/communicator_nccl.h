// The collectives and messages of a communicator over NCCL, on device memory.
//
// Streams. Every axis has a stream of its own, and so has every channel of messages: NCCL's operations of one stream
// and one NCCL communicator run one after the other, each until its partners have come, so with a shared one a posted
// receive would hold up what its own sender waits for. Kernels of up to (2 channels + axes) wait on the device at the
// same time; that needs as many hardware queues, which is why the session asks for 32 (CUDA_DEVICE_MAX_CONNECTIONS).
// Messages go through the channels that the axis was made with (comm/axis_set): a pair of ranks and a direction each,
// as a pipeline needs them. To any other rank they are refused by name. Type and count of both ends are not compared.
// Sums: `any` order is NCCL's (bf16, fp16: rounded at every step); `fixed` order sends every contribution to the owner,
// which adds in rank order (bf16, fp16: in float, rounded once): the same bits as comm/communicator_mpi. Failures: the
// axis asks NCCL for errors while anything is under way and turns them into Error(peer); a partner that never comes is
// found where the host waits (comm/wait, wait_for_device) by the watchdog's deadline. NCCL's communicators are aborted,
// not destroyed, once the job has failed.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "src/comm/axis_set.h"
#include "src/comm/communicator.h"
#include "src/comm/transport.h"

namespace ogrom {

class MpiCommunicator;
class NcclAxis;

struct NcclCommunicator {
    std::unique_ptr<Communicator> communicator;
    std::shared_ptr<NcclAxis> axis;  // to be connected
};

// Collective over `world`: the ranks of `colour` in the order of `key`; both null for a rank with colour < 0. More than
// one rank. Throws Error(usage) where NCCL cannot be used, with the reason.
NcclCommunicator make_nccl_communicator(MpiCommunicator& world, int colour, int key, const std::string& name,
                                        CollectiveCheck check, Channels channels, const AxisOptions& options);

// Collective over `world`: the same axes in the same order on all ranks that share them. Blocks until all are connected
// and have carried something; the watchdog's deadline holds.
void connect_nccl(MpiCommunicator& world, std::span<const std::shared_ptr<NcclAxis>> axes);

}  // namespace ogrom
