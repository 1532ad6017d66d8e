// in: q, k, v (and o, lse, do) rows in host memory; out: o, lse (and dq, dk, dv). This file deals (sample, key head,
// range) to threads and draws dropout; the arithmetic is in attention_forward.h and attention_backward.h, one copy per
// instruction set.
#include "kernels/ops/attention.h"

#include <algorithm>
#include <atomic>
#include <omp.h>
#include <type_traits>
#include <vector>

#include "kernels/common/fault.h"
#include "kernels/common/rng.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_job.h"
#include "kernels/cuda/ops.h"

namespace ogrom {
namespace cpu {

Isa best_isa() {
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
    return wide ? Isa::avx512 : Isa::avx2;
}

u64 attention_dropout_element(const ops::AttentionShape& shape, i64 sample, i64 head, i64 query, i64 key) {
    const i64 heads = shape.heads_total > 0 ? shape.heads_total : shape.heads;
    const i64 queries = shape.queries_total > 0 ? shape.queries_total : shape.queries;
    const i64 keys = shape.keys_total > 0 ? shape.keys_total : shape.keys;
    const u64 row = static_cast<u64>(sample * heads + shape.head0 + head) * static_cast<u64>(queries) +
                    static_cast<u64>(shape.query_offset + query);
    return row * static_cast<u64>(keys) + static_cast<u64>(shape.key_offset + key);
}

}  // namespace cpu

namespace {

using cpu::attention_block;
using cpu::AttentionJob;
using cpu::AttentionKernels;
using cpu::AttentionPart;
using ops::AttentionShape;

void check(const AttentionShape& shape) {
    OGROM_ASSERT(shape.batch >= 0 && shape.queries >= 0 && shape.keys >= 0);
    OGROM_ASSERT(shape.head_dim >= 1 && shape.head_dim <= 256);
    OGROM_ASSERT(shape.kv_heads >= 1 && shape.heads % shape.kv_heads == 0);
    OGROM_ASSERT(shape.queries <= 1 || (shape.query_stride >= shape.heads * shape.head_dim &&
                                        shape.out_stride >= shape.heads * shape.head_dim));
    OGROM_ASSERT(shape.keys <= 1 || (shape.key_stride >= shape.kv_heads * shape.head_dim &&
                                     shape.value_stride >= shape.kv_heads * shape.head_dim));
    OGROM_ASSERT((shape.query_segments == nullptr) == (shape.key_segments == nullptr));
    OGROM_ASSERT(shape.dropout.p >= 0 && shape.dropout.p < 1);
    OGROM_ASSERT(shape.dropout.p == 0 || shape.sample != nullptr);
}

// A range of blocks of one (sample, key head).
struct Piece {
    i64 sample, kv_head;
    i64 query_begin, query_end, key_begin, key_end;
    AttentionPart part;
};

i64 diagonal_of(const AttentionShape& shape) {
    return shape.query_offset - shape.key_offset + (fault_active("attention_diagonal_missed") ? 0 : 1);
}

// Keys that the queries before `query_end` can see.
i64 reach(const AttentionShape& shape, i64 query_end) {
    return std::clamp<i64>(query_end - 1 + diagonal_of(shape), 0, shape.keys);
}

// First block of queries that sees key `key`.
i64 first_query(const AttentionShape& shape, i64 key) {
    const i64 query = std::clamp<i64>(key - diagonal_of(shape) + 1, 0, shape.queries);
    return query / attention_block * attention_block;
}

// Elements of a range when `extent` is cut into whole blocks, about `parts` ranges.
i64 range_of(i64 extent, i64 parts) {
    return std::max<i64>(1, ceil_div(ceil_div(extent, attention_block), parts)) * attention_block;
}

// Ranges that one (sample, key head) needs so that every thread has about four pieces.
i64 parts_for(const AttentionShape& shape, int threads) {
    const i64 pairs = std::max<i64>(1, shape.batch * shape.kv_heads);
    return ceil_div(4 * i64{threads}, pairs);
}

template <class Function>
void for_each_pair(const AttentionShape& shape, const Function& function) {
    for (i64 sample = 0; sample < shape.batch; ++sample) {
        for (i64 kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
            function(sample, kv_head);
        }
    }
}

std::vector<Piece> forward_pieces(const AttentionShape& shape, int threads) {
    const i64 range = range_of(shape.queries, threads == 1 ? 1 : parts_for(shape, threads));
    std::vector<Piece> pieces;
    for_each_pair(shape, [&](i64 sample, i64 kv_head) {
        for (i64 query = 0; query < shape.queries; query += range) {
            const i64 end = std::min(shape.queries, query + range);
            i64 keys = reach(shape, end);
            if (fault_active("attention_last_tile_dropped")) {
                keys = std::max<i64>(0, keys - 1) / attention_block * attention_block;
            }
            pieces.push_back({sample, kv_head, query, end, 0, keys, AttentionPart::all});
        }
    });
    return pieces;
}

// One piece makes all gradients of a (sample, key head) at five products a tile. With fewer of those than threads, keys
// and queries are dealt apart: seven products, the same bits.
std::vector<Piece> backward_pieces(const AttentionShape& shape, int threads) {
    std::vector<Piece> pieces;
    const bool enough = shape.batch * shape.kv_heads >= threads;
    const i64 parts = parts_for(shape, threads);
    for_each_pair(shape, [&](i64 sample, i64 kv_head) {
        if (enough) {
            pieces.push_back({sample, kv_head, 0, shape.queries, 0, shape.keys, AttentionPart::all});
            return;
        }
        const i64 key_range = range_of(shape.keys, parts);
        for (i64 key = 0; key < shape.keys; key += key_range) {
            pieces.push_back({sample, kv_head, first_query(shape, key), shape.queries, key,
                              std::min(shape.keys, key + key_range), AttentionPart::keys});
        }
        const i64 query_range = range_of(shape.queries, parts);
        for (i64 query = 0; query < shape.queries; query += query_range) {
            const i64 end = std::min(shape.queries, query + query_range);
            pieces.push_back({sample, kv_head, query, end, 0, reach(shape, end), AttentionPart::queries});
        }
    });
    return pieces;
}

// What forward and backward share of a job; pointers of one pass are set by the caller.
template <class T>
AttentionJob<T> common_job(const AttentionShape& shape, const Piece& piece) {
    AttentionJob<T> job{};
    job.queries = shape.queries;
    job.keys = shape.keys;
    job.head_dim = shape.head_dim;
    job.group = shape.heads / shape.kv_heads;
    job.diagonal = diagonal_of(shape);
    job.scale = static_cast<T>(shape.scale);
    job.query_stride = shape.query_stride;
    job.key_stride = shape.key_stride;
    job.value_stride = shape.value_stride;
    job.out_stride = shape.out_stride;
    if (shape.query_segments != nullptr) {
        job.query_segments = shape.query_segments + piece.sample * shape.queries;
        job.key_segments = shape.key_segments + piece.sample * shape.keys;
    }
    job.query_begin = piece.query_begin;
    job.query_end = piece.query_end;
    job.key_begin = piece.key_begin;
    job.key_end = piece.key_end;
    job.part = piece.part;
    return job;
}

// First element of the piece's sample and head in each kind of tensor.
struct Offsets {
    i64 query, key, value, out, lse;
};

Offsets offsets_of(const AttentionShape& shape, const Piece& piece) {
    const i64 head = piece.kv_head * (shape.heads / shape.kv_heads);
    return {piece.sample * shape.query_batch_stride + head * shape.head_dim,
            piece.sample * shape.key_batch_stride + piece.kv_head * shape.head_dim,
            piece.sample * shape.value_batch_stride + piece.kv_head * shape.head_dim,
            piece.sample * shape.out_batch_stride + head * shape.head_dim,
            (piece.sample * shape.heads + head) * shape.queries};
}

template <class T>
cpu::AttentionDropout<T> dropout_of(const AttentionShape& shape, const Piece& piece, u32 step) {
    cpu::AttentionDropout<T> dropout{};
    if (shape.dropout.p == 0) {
        return dropout;
    }
    const i64 sample = shape.sample[piece.sample];
    const i64 head = piece.kv_head * (shape.heads / shape.kv_heads);
    const auto element = [&](i64 heads_on, i64 query) {
        return cpu::attention_dropout_element(shape, sample, head + heads_on, query, 0);
    };
    dropout.first = element(0, 0);
    dropout.head_step = element(1, 0) - dropout.first;
    dropout.query_step = element(0, 1) - dropout.first;
    dropout.seed = shape.dropout.seed;
    dropout.site = shape.dropout.site;
    dropout.step = step;
    dropout.threshold = dropout_threshold(shape.dropout.p);
    dropout.kept = static_cast<T>(1.0 / (1.0 - shape.dropout.p));
    return dropout;
}

i64 workspace_of_thread(const AttentionShape& shape) {
    const i64 depth = round_up(shape.head_dim, 16);
    const i64 keys = round_up(shape.keys, attention_block);
    const i64 forward = 2 * keys * depth + 2 * attention_block * depth + 2 * attention_block +
                        12 * (cpu::attention_forward_keys + 16) + cpu::attention_forward_keys + 64;
    const i64 backward = 5 * keys * depth + 5 * attention_block * depth + 3 * attention_block +
                         2 * attention_block * (attention_block + 16) + 64;
    return round_up(std::max(forward, backward), 16);
}

template <class T>
T* workspace_of(T* workspace, const AttentionShape& shape) {
    const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(workspace) % 64;  // bytes behind a cache line's start
    T* aligned = workspace + (64 - past) % 64 / sizeof(T);
    return aligned + omp_get_thread_num() * workspace_of_thread(shape);
}

template <class T>
AttentionKernels<T> kernels_for(cpu::Isa isa) {
    return isa == cpu::Isa::avx512 ? cpu::attention_kernels_avx512<T>() : cpu::attention_kernels_avx2<T>();
}

}  // namespace

namespace cpu {

template <class T>
void attention_forward_on(Isa isa, const ops::AttentionForward<T>& op) {
    const AttentionShape& shape = op.shape;
    check(shape);
    const AttentionKernels<T> kernels = kernels_for<T>(isa);
    const std::vector<Piece> pieces = forward_pieces(shape, omp_get_max_threads());
    const i64 count = static_cast<i64>(pieces.size());
#pragma omp parallel for schedule(dynamic, 1) if (count > 1)
    for (i64 index = 0; index < count; ++index) {
        // The last range of queries sees the most keys: long pieces first.
        const Piece& piece = pieces[static_cast<std::size_t>(count - 1 - index)];
        AttentionJob<T> job = common_job<T>(shape, piece);
        const Offsets at = offsets_of(shape, piece);
        job.q = op.q + at.query;
        job.k = op.k + at.key;
        job.v = op.v + at.value;
        job.o = op.out + at.out;
        job.lse_out = op.lse == nullptr ? nullptr : op.lse + at.lse;
        job.dropout = dropout_of<T>(shape, piece, ops::dropout_step(shape.dropout));
        job.workspace = workspace_of(op.workspace, shape);
        kernels.forward(job);
    }
}

template <class T>
void attention_backward_on(Isa isa, const ops::AttentionBackward<T>& op) {
    const AttentionShape& shape = op.shape;
    check(shape);
    const AttentionKernels<T> kernels = kernels_for<T>(isa);
    const std::vector<Piece> pieces = backward_pieces(shape, omp_get_max_threads());
    const i64 count = static_cast<i64>(pieces.size());
    const u32 step = ops::dropout_step(shape.dropout) + (fault_active("attention_dropout_backward_differs") ? 1U : 0U);
#pragma omp parallel for schedule(dynamic, 1) if (count > 1)
    for (i64 index = 0; index < count; ++index) {
        const Piece& piece = pieces[static_cast<std::size_t>(index)];
        AttentionJob<T> job = common_job<T>(shape, piece);
        const Offsets at = offsets_of(shape, piece);
        job.q = op.q + at.query;
        job.k = op.k + at.key;
        job.v = op.v + at.value;
        job.out = op.out + at.out;
        job.d_out = op.d_out + at.out;
        job.lse = op.lse + at.lse;
        job.d_q = op.d_q + at.query;
        job.d_k = op.d_k + at.key;
        job.d_v = op.d_v + at.value;
        job.dropout = dropout_of<T>(shape, piece, step);
        job.workspace = workspace_of(op.workspace, shape);
        kernels.backward(job);
    }
}

template void attention_forward_on(Isa, const ops::AttentionForward<float>&);
template void attention_forward_on(Isa, const ops::AttentionForward<double>&);
template void attention_backward_on(Isa, const ops::AttentionBackward<float>&);
template void attention_backward_on(Isa, const ops::AttentionBackward<double>&);

}  // namespace cpu

namespace ops {
namespace {

std::atomic<AttentionSettings>& settings_in_use() {
    static std::atomic<AttentionSettings> settings{AttentionSettings{}};
    return settings;
}

}  // namespace

template <class T>
void attention_forward(Stream stream, const AttentionForward<T>& op) {
    check(op.shape);
    if (stream.backend == Backend::cuda) {
        cuda::attention_forward(stream, op);
    } else if constexpr (is_16_bit<T>) {
        fail(ExitCode::usage, "attention_forward: " + std::string(name_of(dtype_of<T>())) + " needs a GPU");
    } else {
        cpu::attention_forward_on(cpu::best_isa(), op);
    }
}

template <class T>
void attention_backward(Stream stream, const AttentionBackward<T>& op) {
    check(op.shape);
    if (stream.backend == Backend::cuda) {
        cuda::attention_backward(stream, op);
    } else if constexpr (is_16_bit<T>) {
        fail(ExitCode::usage, "attention_backward: " + std::string(name_of(dtype_of<T>())) + " needs a GPU");
    } else {
        cpu::attention_backward_on(cpu::best_isa(), op);
    }
}

const char* attention_backend() {
    return cpu::best_isa() == cpu::Isa::avx512 ? "avx512" : "avx2";
}

i64 attention_workspace(const AttentionShape& shape, int threads) {
    return threads * workspace_of_thread(shape) + 16;
}

i64 attention_workspace(const AttentionShape& shape, Backend backend, int threads) {
    return backend == Backend::cuda ? 0 : attention_workspace(shape, threads);
}

void set_attention_settings(AttentionSettings settings) {
    settings_in_use() = settings;
}

AttentionSettings attention_settings() {
    return settings_in_use();
}

template void attention_forward(Stream, const AttentionForward<float>&);
template void attention_forward(Stream, const AttentionForward<double>&);
template void attention_forward(Stream, const AttentionForward<Bf16>&);
template void attention_forward(Stream, const AttentionForward<Fp16>&);
template void attention_backward(Stream, const AttentionBackward<float>&);
template void attention_backward(Stream, const AttentionBackward<double>&);
template void attention_backward(Stream, const AttentionBackward<Bf16>&);
template void attention_backward(Stream, const AttentionBackward<Fp16>&);

}  // namespace ops
}  // namespace ogrom
