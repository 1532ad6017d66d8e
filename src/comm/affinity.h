// The cores that processes may use (taskset, cgroups, the launcher's binding), not those the machine has.
#pragma once
#include <array>
#include <span>

#include "kernels/common/extents.h"

namespace ogrom {

using CpuMask = std::array<u64, 128>;  // one bit per logical core: more than Linux supports

// Of a process; 0 = this one. All zero when the system does not tell (no such process).
CpuMask allowed_cpus(int pid);
// Cores in any of the masks: what ranks bound one to a core share between them.
i64 count_cpus(std::span<const CpuMask> masks);

}  // namespace ogrom
