// What the system allows this process, where a run needs it: open files, locked memory, shared memory. Linux.
#pragma once
#include "kernels/common/extents.h"

namespace ogrom {

struct ProcessLimits {
    static constexpr i64 unlimited = i64{1} << 62;
    i64 open_files = 0, open_files_hard = 0;        // RLIMIT_NOFILE
    i64 locked_memory = 0;                          // RLIMIT_MEMLOCK, bytes
    i64 shared_memory = 0, shared_memory_free = 0;  // of /dev/shm, bytes; -1 = there is none
    bool infiniband = false;                        // the machine has such an adapter, which needs locked memory
};
ProcessLimits process_limits();

}  // namespace ogrom
