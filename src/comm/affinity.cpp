#include "src/comm/affinity.h"

#include <bit>
#include <sched.h>

namespace ogrom {

CpuMask allowed_cpus(int pid) {
    CpuMask mask{};
    if (sched_getaffinity(pid, sizeof(mask), reinterpret_cast<cpu_set_t*>(mask.data())) != 0) {
        mask.fill(0);
    }
    return mask;
}

i64 count_cpus(std::span<const CpuMask> masks) {
    CpuMask all{};
    for (const CpuMask& mask : masks) {
        for (std::size_t i = 0; i < all.size(); ++i) {
            all[i] |= mask[i];
        }
    }
    i64 count = 0;
    for (const u64 word : all) {
        count += std::popcount(word);
    }
    return count;
}

}  // namespace ogrom
