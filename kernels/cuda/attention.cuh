// What the attention kernels share: the shape as a kernel reads it, causal reach of tiles, dropout by global element.
#pragma once
#include <algorithm>

#include "kernels/common/rng.h"
#include "kernels/ops/attention.h"

namespace ogrom::cuda {

inline constexpr float log2_e = 1.4426950408889634F;

// Elements between rows and between samples of one tensor.
struct AttentionRows {
    i64 row, batch;
};

struct AttentionView {
    int batch, queries, keys, heads, kv_heads, group, head_dim;
    int diagonal;  // query i sees keys j <= i + diagonal; in [-queries, keys]
    AttentionRows q, k, v, o;
    const std::int32_t* query_segments;
    const std::int32_t* key_segments;
    double scale;
    const i64* sample;
    i64 heads_total, head0, queries_total, keys_total, query_offset, key_offset;
    ops::DropoutSpec dropout;
    u32 threshold;
    float kept;

    explicit AttentionView(const ops::AttentionShape& s)
        : batch(static_cast<int>(s.batch)),
          queries(static_cast<int>(s.queries)),
          keys(static_cast<int>(s.keys)),
          heads(static_cast<int>(s.heads)),
          kv_heads(static_cast<int>(s.kv_heads)),
          group(static_cast<int>(s.heads / s.kv_heads)),
          head_dim(static_cast<int>(s.head_dim)),
          diagonal(static_cast<int>(std::clamp(s.query_offset - s.key_offset, -s.queries, s.keys))),
          q{s.query_stride, s.query_batch_stride},
          k{s.key_stride, s.key_batch_stride},
          v{s.value_stride, s.value_batch_stride},
          o{s.out_stride, s.out_batch_stride},
          query_segments(s.query_segments),
          key_segments(s.key_segments),
          scale(s.scale),
          sample(s.sample),
          heads_total(s.heads_total > 0 ? s.heads_total : s.heads),
          head0(s.head0),
          queries_total(s.queries_total > 0 ? s.queries_total : s.queries),
          keys_total(s.keys_total > 0 ? s.keys_total : s.keys),
          query_offset(s.query_offset),
          key_offset(s.key_offset),
          dropout(s.dropout),
          threshold(dropout_threshold(s.dropout.p)),
          kept(static_cast<float>(1.0 / (1.0 - s.dropout.p))) {}

    [[nodiscard]] __host__ __device__ bool drops() const { return dropout.p > 0; }
    // Keys that the queries before `end` can see.
    [[nodiscard]] __host__ __device__ int reach(int end) const {
        const int seen = (end < queries ? end : queries) + diagonal;
        return seen < 0 ? 0 : (seen < keys ? seen : keys);
    }
    // First query that sees key `key`; may be `queries` or more.
    [[nodiscard]] __host__ __device__ int first_query(int key) const { return key > diagonal ? key - diagonal : 0; }
    [[nodiscard]] __device__ bool allowed(int sample_index, int i, int j) const {
        if (j > i + diagonal || j >= keys || i >= queries) {
            return false;
        }
        return query_segments == nullptr || query_segments[static_cast<i64>(sample_index) * queries + i] ==
                                                key_segments[static_cast<i64>(sample_index) * keys + j];
    }
    // Global element of (b, h, i, j) for dropout.
    [[nodiscard]] __device__ u64 element(int b, int h, int i, int j) const {
        const u64 row = static_cast<u64>(sample[b] * heads_total + head0 + h) * static_cast<u64>(queries_total) +
                        static_cast<u64>(query_offset + i);
        return row * static_cast<u64>(keys_total) + static_cast<u64>(key_offset + j);
    }
};

// Whether dropout keeps elements first (bit 0) and first + 1 (bit 1). Not inlined: a kernel asks for many.
__device__ inline bool dropout_keeps(const AttentionView& view, u32 step, u64 element) {
    return random_word(view.dropout.seed, view.dropout.site, step, element) >= view.threshold;
}
static __device__ __noinline__ u32 dropout_keeps_pair(u64 seed, u32 site, u32 step, u64 first, u32 threshold) {
    const PhiloxBlock block = random_block(seed, site, step, first >> 2);
    const u32 place = static_cast<u32>(first & 3);
    u32 next = block.word[3];
    if (place == 3) {
        next = random_block(seed, site, step, (first >> 2) + 1).word[0];
    }
    const u32 one =
        place == 0 ? block.word[0] : (place == 1 ? block.word[1] : (place == 2 ? block.word[2] : block.word[3]));
    const u32 two = place == 0 ? block.word[1] : (place == 1 ? block.word[2] : next);
    return (one >= threshold ? 1U : 0U) | (two >= threshold ? 2U : 0U);
}
__device__ inline u32 dropout_keeps_pair(const AttentionView& view, u32 step, u64 first) {
    return dropout_keeps_pair(view.dropout.seed, view.dropout.site, step, first, view.threshold);
}

}  // namespace ogrom::cuda
