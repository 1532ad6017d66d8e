// Initial weights and the weight hash: functions of (seed, tensor id, global logical index), so that both are equal
// under every layout. Padding is the tail of a tensor's rows: 0, and no part of the hash.
#include <algorithm>
#include <bit>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"
#include "kernels/common/hash.h"
#include "kernels/common/parallel.h"
#include "kernels/common/rng.h"

#include "src/model/parameters.h"

namespace ogrom {
namespace {

// Logical elements come first in a stored tensor: only the leading dimension is padded.
i64 logical_count(const LocalTensor& tensor) {
    const Parameter& parameter = *tensor.parameter;
    for (std::size_t axis = 1; axis < parameter.shape.size(); ++axis) {
        OGROM_ASSERT(parameter.shape[axis] == tensor.shape[axis]);
    }
    return parameter.count();
}

// w[i] = std * normal(seed, tensor id, i), four elements a call of the generator
template <class T>
void fill_normal(T* weights, i64 count, const Parameter& parameter, u64 seed, i64 first_index) {
    const u32 id = static_cast<u32>(parameter.id);
    parallel_ranges(count, parallel_grain, [&](i64 first, i64 last) {
        double values[4];
        for (i64 i = first; i < last;) {
            const i64 index = first_index + i;
            normals_at(seed, id, static_cast<u64>(index >> 2), values);
            for (i64 lane = index & 3; lane < 4 && i < last; ++lane, ++i) {
                weights[i] = static_cast<T>(parameter.initial_std * values[lane]);
            }
        }
    });
}

}  // namespace

template <class T>
void initialise(std::span<T> flat, const ParameterLayout& layout, u64 seed) {
    OGROM_ASSERT(static_cast<i64>(flat.size()) == layout.size());
    for (const LocalTensor& tensor : layout.tensors()) {
        const Parameter& parameter = *tensor.parameter;
        T* const weights = flat.data() + tensor.offset;
        const i64 count = logical_count(tensor);
        if (parameter.initial == Initial::normal) {
            const i64 first_index = fault_active("init_by_local_index") ? tensor.offset : 0;
            fill_normal(weights, count, parameter, seed, first_index);
        } else {
            std::fill_n(weights, count, static_cast<T>(parameter.initial == Initial::ones ? 1 : 0));
        }
        std::fill(weights + count, weights + tensor.count, T(0));
    }
}

template <class T>
u64 weight_hash(std::span<const T> flat, const ParameterLayout& layout) {
    OGROM_ASSERT(static_cast<i64>(flat.size()) == layout.size());
    u64 sum = 0;  // unsigned: addition mod 2^64, so any order gives the same
    for (const LocalTensor& tensor : layout.tensors()) {
        const T* weights = flat.data() + tensor.offset;
        const u64 key = hash_tensor(static_cast<u64>(tensor.parameter->id));
        const i64 count = logical_count(tensor);
        u64 part = 0;
#pragma omp parallel for schedule(static) reduction(+ : part)
        for (i64 i = 0; i < count; ++i) {
            part += hash_element(key, static_cast<u64>(i), std::bit_cast<u32>(static_cast<float>(weights[i])));
        }
        sum += part;
    }
    return sum;
}

template void initialise<float>(std::span<float>, const ParameterLayout&, u64);
template void initialise<double>(std::span<double>, const ParameterLayout&, u64);
template u64 weight_hash<float>(std::span<const float>, const ParameterLayout&);
template u64 weight_hash<double>(std::span<const double>, const ParameterLayout&);

}  // namespace ogrom
