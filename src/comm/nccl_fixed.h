// Sums in rank order over NCCL: each owner receives all contributions and adds them, on the device. The same bits as
// the fixed order on the host (comm/operation). fp32 and fp64 in their own type, 16 bits in float, rounded once.
#pragma once
#include "src/comm/nccl_axis.h"

namespace ogrom {

// Enqueue on the axis' collective lane. flops: (p - 1) x elements owned; scratch as in comm/communicator.h.
void fixed_all_reduce(NcclAxis& axis, const DeviceCall& call, const std::string& text);
void fixed_reduce(NcclAxis& axis, const DeviceCall& call, const std::string& text);
void fixed_reduce_scatter(NcclAxis& axis, const DeviceCall& call, const std::string& text);  // batched or not

}  // namespace ogrom
