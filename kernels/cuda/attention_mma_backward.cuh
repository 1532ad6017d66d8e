// Attention backward in 16 bits on mma.sync: a block owns 64 keys of a key head (dk, dv: over the query heads of the
// group and their queries in ascending order) or 64 queries (dq: over the keys). Scores are made in both, transposed
// for the keys, so that probabilities and their gradients are the left operand of the next product without leaving the
// registers: seven products in all, no sum shared between blocks, repeatable. in: q, k, v, o, do, lse; out: dq, dk, dv.
// Included by attention_mma_backward_*.cu alone, one for each type.
#pragma once
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ogrom::cuda {
namespace {

template <int D>
struct Backward {
    static constexpr int inner = D == 256 ? 32 : 64;    // rows of the tiles walked over
    static constexpr int stages = D == 256 ? 1 : 2;     // of them in shared memory
    static constexpr int columns = D == 256 ? 128 : D;  // of dk and dv that a block sums
    static constexpr int own = mma_rows * D, tile = inner * D;
    static constexpr i64 bytes = static_cast<i64>(sizeof(Bf16)) * (2 * own + 2 * stages * tile) +
                                 static_cast<i64>(sizeof(float)) * 2 * stages * inner;
};

struct Place {
    int b, h, query, key;
};

// compute(t, stage) for t in [0, count), with fetch(t, stage) of the next tile under way where there are two stages.
template <int Stages, class Fetch, class Compute>
__device__ void pipelined(int count, const Fetch& fetch, const Compute& compute) {
    if (count > 0) {
        fetch(0, 0);
    }
    end_copy_group();
    for (int t = 0; t < count; ++t) {
        if (Stages == 2 && t + 1 < count) {
            fetch(t + 1, (t + 1) % 2);
        }
        if (Stages == 2) {
            end_copy_group();
        }
        wait_copy_groups<Stages - 1>();
        __syncthreads();
        compute(t, t % Stages);
        __syncthreads();
        if (Stages == 1 && t + 1 < count) {
            fetch(t + 1, 0);
            end_copy_group();
        }
    }
    wait_copy_groups<0>();
}

template <class T, int D, Dropout Mode>
__global__ void __launch_bounds__(mma_threads)
    mma_backward_keys(ops::AttentionBackward<T> op, AttentionView view, Alignment alignment, const float* delta) {
    using S = Backward<D>;
    constexpr int halves = D / S::columns, N = S::inner / 8;
    extern __shared__ uint4 shared[];
    T* const k = reinterpret_cast<T*>(shared);
    T* const v = k + S::own;
    T* const q = v + S::own;
    T* const d_out = q + S::stages * S::tile;
    float* const lses = reinterpret_cast<float*>(d_out + S::stages * S::tile);
    float* const deltas = lses + S::stages * S::inner;
    const int dim = view.head_dim, half = static_cast<int>(blockIdx.x) % halves;
    const int key = static_cast<int>(blockIdx.x) / halves * mma_rows;
    const int kv_head = static_cast<int>(blockIdx.y), b = static_cast<int>(blockIdx.z);
    fetch_tile<mma_rows, D>(k, op.k + b * view.k.batch + kv_head * dim, view.k.row, key, view.keys, dim, alignment);
    fetch_tile<mma_rows, D>(v, op.v + b * view.v.batch + kv_head * dim, view.v.row, key, view.keys, dim, alignment);
    const int first = view.first_query(key) / S::inner * S::inner;
    const int tiles = first < view.queries ? (view.queries - first + S::inner - 1) / S::inner : 0;
    const auto place_of = [&](int t) {
        return Place{b, kv_head * view.group + t / tiles, first + t % tiles * S::inner, key};
    };
    const auto fetch = [&](int t, int stage) {
        const Place at = place_of(t);
        fetch_tile<S::inner, D>(q + stage * S::tile, op.q + b * view.q.batch + at.h * dim, view.q.row, at.query,
                                view.queries, dim, alignment);
        fetch_tile<S::inner, D>(d_out + stage * S::tile, op.d_out + b * view.o.batch + at.h * dim, view.o.row, at.query,
                                view.queries, dim, alignment);
        const i64 row = (static_cast<i64>(b) * view.heads + at.h) * view.queries + at.query;
        if (const int i = static_cast<int>(threadIdx.x); i < S::inner) {
            const bool there = at.query + i < view.queries;
            lses[stage * S::inner + i] = there ? op.lse[row + i] * log2_e : 0.0F;
            deltas[stage * S::inner + i] = there ? delta[row + i] : 0.0F;
        }
    };
    const float scale2 = static_cast<float>(view.scale) * log2_e;
    [[maybe_unused]] const u32 step = Mode == Dropout::on ? ops::dropout_step(view.dropout) : 0;
    Sums<S::columns / 8> d_k, d_v;
    d_k.clear();
    d_v.clear();
    pipelined<S::stages>(tiles * view.group, fetch, [&](int t, int stage) {
        const Place at = place_of(t);
        const bool whole = at.key + mma_rows - 1 <= at.query + view.diagonal && at.query + S::inner <= view.queries &&
                           at.key + mma_rows <= view.keys && view.query_segments == nullptr;
        Sums<N> p, ds;
        multiply_rows<D>(p, k, q + stage * S::tile);
        multiply_rows<D>(ds, v, d_out + stage * S::tile);
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int row = 8 * n + lane_of() % 4 * 2 + e % 2, i = at.query + row;
                const int j = at.key + warp_of() * 16 + lane_of() / 4 + e / 2 * 8;
                float& probability = p.at[n][e];
                const bool allowed = whole || view.allowed(b, i, j);
                probability = allowed ? power_of_2(probability * scale2 - lses[stage * S::inner + row]) : 0.0F;
                float factor = 1.0F;
                if constexpr (Mode == Dropout::on) {
                    factor = (dropout_keeps_pair(view, step, view.element(b, at.h, i, j)) & 1U) != 0 ? view.kept : 0.0F;
                }
                ds.at[n][e] = probability * (factor * ds.at[n][e] - deltas[stage * S::inner + row]);
                probability *= factor;
            }
        }
        add_weighted_rows<D>(d_v, p, d_out + stage * S::tile, half * S::columns / 8);
        add_weighted_rows<D>(d_k, ds, q + stage * S::tile, half * S::columns / 8);
    });
    const float scale = static_cast<float>(view.scale);
    const float scales[2] = {scale, scale}, ones[2] = {1.0F, 1.0F};
    write_sums(op.d_k + b * view.k.batch + kv_head * dim, view.k.row, key, view.keys, half * S::columns, dim, d_k,
               scales);
    write_sums(op.d_v + b * view.v.batch + kv_head * dim, view.v.row, key, view.keys, half * S::columns, dim, d_v,
               ones);
}

template <class T, int D, Dropout Mode>
__global__ void __launch_bounds__(mma_threads)
    mma_backward_queries(ops::AttentionBackward<T> op, AttentionView view, Alignment alignment, const float* delta) {
    using S = Backward<D>;
    constexpr int N = S::inner / 8;
    extern __shared__ uint4 shared[];
    T* const q = reinterpret_cast<T*>(shared);
    T* const d_out = q + S::own;
    T* const k = d_out + S::own;
    T* const v = k + S::stages * S::tile;
    const int dim = view.head_dim, b = static_cast<int>(blockIdx.z), h = static_cast<int>(blockIdx.y);
    const int query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * mma_rows, kv_head = h / view.group;
    fetch_tile<mma_rows, D>(q, op.q + b * view.q.batch + h * dim, view.q.row, query, view.queries, dim, alignment);
    fetch_tile<mma_rows, D>(d_out, op.d_out + b * view.o.batch + h * dim, view.o.row, query, view.queries, dim,
                            alignment);
    const auto fetch = [&](int t, int stage) {
        fetch_tile<S::inner, D>(k + stage * S::tile, op.k + b * view.k.batch + kv_head * dim, view.k.row, t * S::inner,
                                view.keys, dim, alignment);
        fetch_tile<S::inner, D>(v + stage * S::tile, op.v + b * view.v.batch + kv_head * dim, view.v.row, t * S::inner,
                                view.keys, dim, alignment);
    };
    float lse[2] = {0, 0}, mean[2] = {0, 0};
    const int row0 = query + warp_of() * 16 + lane_of() / 4;
    for (int r = 0; r < 2; ++r) {
        const i64 row = (static_cast<i64>(b) * view.heads + h) * view.queries + row0 + 8 * r;
        lse[r] = row0 + 8 * r < view.queries ? op.lse[row] * log2_e : 0.0F;
        mean[r] = row0 + 8 * r < view.queries ? delta[row] : 0.0F;
    }
    const float scale2 = static_cast<float>(view.scale) * log2_e;
    [[maybe_unused]] const u32 step = Mode == Dropout::on ? ops::dropout_step(view.dropout) : 0;
    Sums<D / 8> d_q;
    d_q.clear();
    const int tiles = (view.reach(query + mma_rows) + S::inner - 1) / S::inner;
    pipelined<S::stages>(tiles, fetch, [&](int t, int stage) {
        const int key = t * S::inner;
        const bool whole = key + S::inner - 1 <= query + view.diagonal && query + mma_rows <= view.queries &&
                           key + S::inner <= view.keys && view.query_segments == nullptr;
        Sums<N> p, ds;
        multiply_rows<D>(p, q, k + stage * S::tile);
        multiply_rows<D>(ds, d_out, v + stage * S::tile);
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int i = row0 + e / 2 * 8, j = key + 8 * n + lane_of() % 4 * 2 + e % 2;
                const bool allowed = whole || view.allowed(b, i, j);
                const float probability = allowed ? power_of_2(p.at[n][e] * scale2 - lse[e / 2]) : 0.0F;
                float factor = 1.0F;
                if constexpr (Mode == Dropout::on) {
                    factor = (dropout_keeps_pair(view, step, view.element(b, h, i, j)) & 1U) != 0 ? view.kept : 0.0F;
                }
                ds.at[n][e] = probability * (factor * ds.at[n][e] - mean[e / 2]);
            }
        }
        add_weighted_rows<D>(d_q, ds, k + stage * S::tile, 0);
    });
    const float scale = static_cast<float>(view.scale);
    const float scales[2] = {scale, scale};
    write_sums(op.d_q + b * view.q.batch + h * dim, view.q.row, query, view.queries, 0, dim, d_q, scales);
}

// delta_i = do_i . o_i, one warp a row.
template <class T>
__global__ void __launch_bounds__(flat_threads)
    mma_delta(ops::AttentionBackward<T> op, AttentionView view, float* delta) {
    const i64 rows = static_cast<i64>(view.batch) * view.heads * view.queries;
    const i64 step = static_cast<i64>(gridDim.x) * (flat_threads / 32);
    for (i64 row = (static_cast<i64>(blockIdx.x) * flat_threads + threadIdx.x) / 32; row < rows; row += step) {
        const i64 i = row % view.queries, h = row / view.queries % view.heads, b = row / view.queries / view.heads;
        const i64 start = b * view.o.batch + i * view.o.row + h * view.head_dim;
        float sum = 0;
        for (int d = lane_of(); d < view.head_dim; d += 32) {
            sum += to_float(op.out[start + d]) * to_float(op.d_out[start + d]);
        }
        sum = warp_sum(sum);
        if (lane_of() == 0) {
            delta[row] = sum;
        }
    }
}

template <class T, int D, Dropout Mode>
void launch_mode(Stream stream, const ops::AttentionBackward<T>& op, const float* delta) {
    using S = Backward<D>;
    const ops::AttentionShape& shape = op.shape;
    const AttentionView view(shape);
    const Alignment alignment = attention_alignment(shape, op.q, op.k, op.v, op.d_out);
    const auto blocks = [&](i64 extent, i64 heads) {
        return dim3(static_cast<unsigned>(extent), static_cast<unsigned>(heads), static_cast<unsigned>(shape.batch));
    };
    for (auto* kernel : {mma_backward_keys<T, D, Mode>, mma_backward_queries<T, D, Mode>}) {
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(S::bytes)),
              "shared memory of attention_backward");
    }
    if (shape.keys > 0) {
        mma_backward_keys<T, D, Mode><<<blocks(ceil_div(shape.keys, i64{mma_rows}) * (D / S::columns), shape.kv_heads),
                                        mma_threads, S::bytes, native(stream)>>>(op, view, alignment, delta);
        check_launch("attention_backward of keys");
    }
    if (shape.queries > 0) {
        mma_backward_queries<T, D, Mode>
            <<<blocks(ceil_div(shape.queries, i64{mma_rows}), shape.heads), mma_threads, S::bytes, native(stream)>>>(
                op, view, alignment, delta);
        check_launch("attention_backward of queries");
    }
}

template <class T, int D>
void launch(Stream stream, const ops::AttentionBackward<T>& op, const float* delta) {
    if (op.shape.dropout.p > 0) {
        launch_mode<T, D, Dropout::on>(stream, op, delta);
    } else {
        launch_mode<T, D, Dropout::off>(stream, op, delta);
    }
}

}  // namespace

template <class T>
void attention_backward_mma(Stream stream, const ops::AttentionBackward<T>& op, float* delta) {
    const i64 rows = op.shape.batch * op.shape.heads * op.shape.queries;
    if (rows > 0) {
        mma_delta<<<grid_of(ceil_div(rows * 32, flat_threads)), flat_threads, 0, native(stream)>>>(
            op, AttentionView(op.shape), delta);
        check_launch("attention_backward of delta");
    }
    if (op.shape.head_dim <= 32) {
        launch<T, 32>(stream, op, delta);
    } else if (op.shape.head_dim <= 64) {
        launch<T, 64>(stream, op, delta);
    } else if (op.shape.head_dim <= 128) {
        launch<T, 128>(stream, op, delta);
    } else {
        launch<T, 256>(stream, op, delta);
    }
}

}  // namespace ogrom::cuda
