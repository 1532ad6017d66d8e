// Initial weights and the weight hash: functions of (seed, tensor id, global logical index), so that both are equal
// under every layout. Padding is the tail of a tensor's rows: 0, and no part of the hash.
#include <algorithm>
#include <vector>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"
#include "kernels/common/hash.h"
#include "kernels/common/parallel.h"
#include "kernels/common/rng.h"
#include "kernels/ops/weight_hash.h"

#include "src/model/parameters.h"

namespace ogrom {
namespace {

// w[i] = std * normal(seed, key, global index of i): a call of the generator gives four neighbours.
template <class T>
void fill_normal(T* weights, const LocalTensor& tensor, i64 from, i64 to, u64 seed) {
    const Parameter& parameter = *tensor.parameter;
    const u32 key = static_cast<u32>(parameter.key);
    const i64 row = tensor.cols();
    const i64 shift = fault_active("init_by_local_index") ? tensor.offset : 0;
    parallel_ranges(to - from, parallel_grain, [&](i64 first, i64 last) {
        double values[4];
        for (i64 i = from + first; i < from + last;) {
            const i64 index = tensor.global_index(i) + shift;
            normals_at(seed, key, static_cast<u64>(index >> 2), values);
            const i64 row_end = std::min(from + last, (i / row + 1) * row);  // the next row may stand elsewhere
            for (i64 lane = index & 3; lane < 4 && i < row_end; ++lane, ++i) {
                weights[i] = static_cast<T>(parameter.initial_std * values[lane]);
            }
        }
    });
}

// The part of a tensor that falls into a flat range, as local elements.
FlatRange inside(const LocalTensor& tensor, FlatRange range) {
    const i64 first = std::max(range.first, tensor.offset) - tensor.offset;
    const i64 last = std::min(range.last, tensor.offset + tensor.count) - tensor.offset;
    return {first, std::max(first, last)};
}

}  // namespace

template <class T>
void initialise(T* weights, FlatRange range, const ParameterLayout& layout, u64 seed) {
    for (const LocalTensor& tensor : layout.tensors()) {
        const FlatRange part = inside(tensor, range);
        if (part.count() == 0) {
            continue;
        }
        T* const start = weights + tensor.offset - range.first;
        const i64 logical = std::clamp(tensor.logical, part.first, part.last);
        if (tensor.parameter->initial == Initial::normal) {
            fill_normal(start, tensor, part.first, logical, seed);
        } else {
            std::fill(start + part.first, start + logical, T(tensor.parameter->initial == Initial::ones ? 1 : 0));
        }
        std::fill(start + logical, start + part.last, T(0));
    }
}

template <class T>
void initialise(std::span<T> flat, const ParameterLayout& layout, u64 seed) {
    OGROM_ASSERT(static_cast<i64>(flat.size()) == layout.size());
    initialise(flat.data(), {0, layout.size()}, layout, seed);
}

template <class T>
u64 weight_hash(const T* weights, FlatRange range, const ParameterLayout& layout, Stream stream) {
    std::vector<ops::HashRun<T>> runs;
    for (const LocalTensor& tensor : layout.tensors()) {
        const bool counted_elsewhere = layout.replicated(tensor) && layout.part().rank != 0;
        if (!tensor.parameter->tie.empty() || counted_elsewhere) {
            continue;
        }
        const FlatRange local = inside(tensor, range);
        const Parameter& parameter = *tensor.parameter;
        runs.push_back({.x = weights + tensor.offset - range.first,
                        .first = local.first,
                        .last = std::min(local.last, tensor.logical),
                        .key = hash_tensor(static_cast<u64>(parameter.key)),
                        .columns = tensor.cols(),
                        .whole_columns = parameter.shape.size() > 1 ? parameter.shape[1] : 1,
                        .row0 = tensor.row0,
                        .col0 = tensor.col0});
    }
    return ops::weight_hash<T>(stream, runs);
}

template <class T>
u64 weight_hash(std::span<const T> flat, const ParameterLayout& layout) {
    OGROM_ASSERT(static_cast<i64>(flat.size()) == layout.size());
    return weight_hash(flat.data(), {0, layout.size()}, layout);
}

template void initialise<float>(float*, FlatRange, const ParameterLayout&, u64);
template void initialise<double>(double*, FlatRange, const ParameterLayout&, u64);
template u64 weight_hash<float>(const float*, FlatRange, const ParameterLayout&, Stream);
template u64 weight_hash<double>(const double*, FlatRange, const ParameterLayout&, Stream);
template void initialise<float>(std::span<float>, const ParameterLayout&, u64);
template void initialise<double>(std::span<double>, const ParameterLayout&, u64);
template u64 weight_hash<float>(std::span<const float>, const ParameterLayout&);
template u64 weight_hash<double>(std::span<const double>, const ParameterLayout&);

}  // namespace ogrom
