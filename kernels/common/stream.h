// Where an operation runs: an ordered queue on one device. On the CPU the queue is the calling thread (OpenMP inside),
// so every call is complete on return; on CUDA `native` is the cudaStream_t.
#pragma once
#include "kernels/common/error.h"

namespace ogrom {

enum class Backend { cpu, cuda };

struct Stream {
    Backend backend = Backend::cpu;
    void* native = nullptr;
};

// The door of the CUDA backend while it is not built: every ops entry calls it for a CUDA stream.
[[noreturn]] inline void cuda_not_compiled(const char* operation) {
    fail(ExitCode::usage, std::string(operation) + ": the CUDA backend is not compiled into this binary");
}

}  // namespace ogrom
