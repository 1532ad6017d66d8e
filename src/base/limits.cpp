#include "src/base/limits.h"

#include <filesystem>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <system_error>

namespace ogrom {
namespace {

i64 value_of(rlim_t limit) {
    const bool none = limit == RLIM_INFINITY || limit > static_cast<rlim_t>(ProcessLimits::unlimited);
    return none ? ProcessLimits::unlimited : static_cast<i64>(limit);
}

}  // namespace

ProcessLimits process_limits() {
    ProcessLimits limits;
    struct rlimit found {};
    if (getrlimit(RLIMIT_NOFILE, &found) == 0) {
        limits.open_files = value_of(found.rlim_cur);
        limits.open_files_hard = value_of(found.rlim_max);
    }
    if (getrlimit(RLIMIT_MEMLOCK, &found) == 0) {
        limits.locked_memory = value_of(found.rlim_cur);
    }
    struct statvfs shm {};
    if (statvfs("/dev/shm", &shm) == 0) {
        limits.shared_memory = static_cast<i64>(shm.f_blocks) * static_cast<i64>(shm.f_frsize);
        limits.shared_memory_free = static_cast<i64>(shm.f_bavail) * static_cast<i64>(shm.f_frsize);
    } else {
        limits.shared_memory = limits.shared_memory_free = -1;
    }
    std::error_code status;
    const std::filesystem::directory_iterator adapters("/sys/class/infiniband", status);
    limits.infiniband = !status && adapters != std::filesystem::directory_iterator();
    return limits;
}

}  // namespace ogrom
