// What this process holds and what the machine still has, in bytes. Linux: /proc and the cgroup of the process.
#pragma once
#include <string>

#include "kernels/common/extents.h"

#include "src/device/select.h"

namespace ogrom {

struct ResidentMemory {
    i64 anonymous = 0;  // heap, arena, stacks: what the ledger accounts for
    i64 file = 0;       // pages of mapped files (token files, program text): the kernel may drop them
    i64 shared = 0;     // shared memory segments of MPI
    i64 peak = 0;       // largest total since the start or the last reset_peak()

    // Peak without the pages that belong to files and shared segments: compared with the ledger.
    [[nodiscard]] i64 peak_anonymous() const { return peak - file - shared; }
};
ResidentMemory resident_memory();

// Starts the peak anew from what is held now, where the kernel allows it.
void reset_peak();

// Bytes that may still be taken: the smaller of MemAvailable and what the cgroup limits leave.
i64 free_memory();

// Of the GPU that the thread uses, as its driver reports it: everything on it, whoever took it; and what the kernels of
// this process keep as working memory (kernels/cuda/scratch.h). 0 on the CPU.
struct GpuMemory {
    i64 used = 0, scratch = 0;
};
GpuMemory gpu_memory(const Device& device);

// Processor cores that this process may run on: '1' at each of them, '0' elsewhere, as long as the machine has cores.
std::string affinity_mask();

// Seconds since the kernel started this process (10 ms steps): launch time includes loading and MPI.
double seconds_since_launch();

}  // namespace ogrom
