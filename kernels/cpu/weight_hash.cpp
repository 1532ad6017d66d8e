#include "kernels/ops/weight_hash.h"

#include <bit>

#include "kernels/common/parallel.h"
#include "kernels/cuda/ops.h"

namespace ogrom::ops {

template <class T>
u64 weight_hash(Stream stream, std::span<const HashRun<T>> runs) {
    if (stream.backend == Backend::cuda) {
        return cuda::weight_hash(stream, runs);
    }
    u64 sum = 0;
    for (const HashRun<T>& run : runs) {
#pragma omp parallel for schedule(static) reduction(+ : sum) if (run.last - run.first > parallel_grain)
        for (i64 i = run.first; i < run.last; ++i) {
            sum += hash_element(run.key, run.index(i), std::bit_cast<u32>(static_cast<float>(run.x[i])));
        }
    }
    return sum;
}

template u64 weight_hash<float>(Stream, std::span<const HashRun<float>>);
template u64 weight_hash<double>(Stream, std::span<const HashRun<double>>);

}  // namespace ogrom::ops
