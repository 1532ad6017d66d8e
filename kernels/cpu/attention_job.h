// Inside of ops/attention on the CPU: one piece of work (one sample, one key head, a range of queries and keys) as
// plain data, and the table of functions that the instruction-set files fill. Those files are compiled with wider
// -march than the rest, so this header holds no inline code that the linker could merge into a binary for a smaller
// machine.
#pragma once
#include <cstdint>

#include "kernels/common/extents.h"

namespace ogrom::cpu {

constexpr i64 attention_block = 96;  // queries of a block, and keys of a backward block; multiple of 12, 16 and 32
constexpr i64 attention_forward_keys = 256;  // keys between two rescalings of the forward pass; multiple of 32

enum class AttentionPart { all, queries, keys };  // which gradients a backward piece makes

// Element of (head of the group, query, key) = first + head * head_step + query * query_step + key.
template <class T>
struct AttentionDropout {
    u64 first, head_step, query_step;
    u64 seed;
    u32 site, step;
    u32 threshold;  // words below it are dropped; 0 = no dropout
    T kept;         // 1 / (1 - p)
};

template <class T>
struct AttentionJob {
    i64 queries, keys, head_dim, group;  // group = query heads that share this key head
    i64 diagonal;                        // key j is allowed for query i when j < i + diagonal
    T scale;
    const T *q, *k, *v, *d_out, *out, *lse;  // first row of the sample, first head of the group; lse [group, queries]
    T *o, *lse_out, *d_q, *d_k, *d_v;
    i64 query_stride, key_stride, value_stride, out_stride;
    const std::int32_t* query_segments;  // [queries] or null
    const std::int32_t* key_segments;    // [keys] or null
    AttentionDropout<T> dropout;
    i64 query_begin, query_end, key_begin, key_end;  // begins are multiples of attention_block
    AttentionPart part;
    T* workspace;  // 64-byte aligned
};

template <class T>
struct AttentionKernels {
    void (*forward)(const AttentionJob<T>&);
    void (*backward)(const AttentionJob<T>&);
};

enum class Isa { avx2, avx512 };
template <class T>
AttentionKernels<T> attention_kernels_avx2();
template <>
AttentionKernels<float> attention_kernels_avx2();
template <>
AttentionKernels<double> attention_kernels_avx2();

template <class T>
AttentionKernels<T> attention_kernels_avx512();
template <>
AttentionKernels<float> attention_kernels_avx512();
template <>
AttentionKernels<double> attention_kernels_avx512();

// The widest set that this processor has.
Isa best_isa();

}  // namespace ogrom::cpu
