// The counter-based numbers of kernels/common/rng.h evaluated on a CUDA device: the same bits as on the host, element
// by element. This is how the shared headers are proven under nvcc.
#pragma once
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"
#include "kernels/ops/dropout.h"

namespace ogrom::cuda {

// For element first + i, i < count; device pointers, each may be null.
struct PhiloxFill {
    u32* words = nullptr;           // random_word(seed, site, step, element)
    unsigned char* kept = nullptr;  // 1 where dropout keeps the element: word >= dropout_threshold(p)
    double* normals = nullptr;      // normal_at(seed, site, element): initial weight of tensor `site`
    u64 first = 0;
    i64 count = 0;
    ops::DropoutSpec spec{};
};

// Enqueues on `stream`; a launch error is thrown here, an execution error appears at the next synchronisation.
void philox_fill(Stream stream, const PhiloxFill& op);

}  // namespace ogrom::cuda
