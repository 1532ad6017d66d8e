// Attention forward in 16 bits on mma.sync (Dao 2023, algorithm 1): a block owns 64 queries of a head, 16 a warp, and
// walks over tiles of keys, the next tile on its way while one is used. Probabilities stay in registers, rounded to
// for the second product; row maxima and sums in fp32, in base 2. in: q, k, v; out: o, lse.
// Included by attention_mma_forward_*.cu alone, one for each type.
#pragma once
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ogrom::cuda {
namespace {

template <int D>
struct Forward {
    static constexpr int keys = D == 256 ? 32 : 64;  // of a tile
    static constexpr int tile = keys * D;
    static constexpr i64 bytes = static_cast<i64>(sizeof(Bf16)) * (mma_rows * D + 4 * tile);
};

struct Place {
    int b, h, query, key;
};

// -inf where a pair is not allowed.
template <int N>
__device__ void mask_scores(Sums<N>& scores, const AttentionView& view, const Place& at) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int i = at.query + warp_of() * 16 + lane_of() / 4 + e / 2 * 8;
            const int j = at.key + 8 * n + lane_of() % 4 * 2 + e % 2;
            scores.at[n][e] = view.allowed(at.b, i, j) ? scores.at[n][e] : -INFINITY;
        }
    }
}

template <int N>
__device__ void drop(Sums<N>& p, const AttentionView& view, const Place& at) {
    const u32 step = ops::dropout_step(view.dropout);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int i = at.query + warp_of() * 16 + lane_of() / 4 + 8 * r;
        const u64 row = view.element(at.b, at.h, i, at.key + lane_of() % 4 * 2);
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const u32 kept = dropout_keeps_pair(view, step, row + static_cast<u64>(8 * n));
            p.at[n][2 * r] = (kept & 1U) != 0 ? p.at[n][2 * r] : 0.0F;
            p.at[n][2 * r + 1] = (kept & 2U) != 0 ? p.at[n][2 * r + 1] : 0.0F;
        }
    }
}

// Scores to probabilities relative to the largest score so far; what was summed before is rescaled.
template <int N, int W>
__device__ void soften(Sums<N>& scores, Sums<W>& out, float (&top)[2], float (&total)[2], float scale2) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float most = top[r];
#pragma unroll
        for (int n = 0; n < N; ++n) {
            most = fmaxf(most, fmaxf(scores.at[n][2 * r], scores.at[n][2 * r + 1]));
        }
        most = fmaxf(most, __shfl_xor_sync(all_lanes, most, 1));
        most = fmaxf(most, __shfl_xor_sync(all_lanes, most, 2));
        const float shift = most == -INFINITY ? 0.0F : most * scale2;
        const float correction = power_of_2(top[r] * scale2 - shift);
        top[r] = most;
        float sum = 0;
#pragma unroll
        for (int n = 0; n < N; ++n) {
            for (int c = 0; c < 2; ++c) {
                float& score = scores.at[n][2 * r + c];
                score = power_of_2(fmaf(score, scale2, -shift));
                sum += score;
            }
        }
        total[r] = total[r] * correction + sum;  // this thread's columns only
#pragma unroll
        for (int w = 0; w < W; ++w) {
            out.at[w][2 * r] *= correction;
            out.at[w][2 * r + 1] *= correction;
        }
    }
}

template <class T, int D, Dropout Mode>
__global__ void __launch_bounds__(mma_threads)
    mma_forward(ops::AttentionForward<T> op, AttentionView view, Alignment alignment) {
    using S = Forward<D>;
    extern __shared__ uint4 shared[];
    T* const q = reinterpret_cast<T*>(shared);
    T* const k = q + mma_rows * D;
    T* const v = k + 2 * S::tile;
    const int dim = view.head_dim;
    Place at{static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y),
             static_cast<int>(gridDim.x - 1 - blockIdx.x) * mma_rows, 0};  // long tiles first
    const int kv_head = at.h / view.group, reach = view.reach(at.query + mma_rows);
    const T* const keys = op.k + at.b * view.k.batch + kv_head * dim;
    const T* const values = op.v + at.b * view.v.batch + kv_head * dim;
    const auto fetch = [&](int key) {
        const int stage = key / S::keys % 2 * S::tile;
        fetch_tile<S::keys, D>(k + stage, keys, view.k.row, key, view.keys, dim, alignment);
        fetch_tile<S::keys, D>(v + stage, values, view.v.row, key, view.keys, dim, alignment);
    };
    fetch_tile<mma_rows, D>(q, op.q + at.b * view.q.batch + at.h * dim, view.q.row, at.query, view.queries, dim,
                            alignment);
    if (reach > 0) {
        fetch(0);
    }
    end_copy_group();
    const float scale2 = static_cast<float>(view.scale) * log2_e;
    Sums<D / 8> out;
    out.clear();
    float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
    for (; at.key < reach; at.key += S::keys) {
        if (at.key + S::keys < reach) {
            fetch(at.key + S::keys);
        }
        end_copy_group();
        wait_copy_groups<1>();
        __syncthreads();
        const int stage = at.key / S::keys % 2 * S::tile;
        Sums<S::keys / 8> scores;
        multiply_rows<D>(scores, q, k + stage);
        if (at.key + S::keys - 1 > at.query + view.diagonal || at.key + S::keys > view.keys ||
            view.query_segments != nullptr) {
            mask_scores(scores, view, at);
        }
        soften(scores, out, top, total, scale2);
        if constexpr (Mode == Dropout::on) {
            drop(scores, view, at);
        }
        add_weighted_rows<D>(out, scores, v + stage, 0);
        __syncthreads();
    }
    wait_copy_groups<0>();
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        total[r] += __shfl_xor_sync(all_lanes, total[r], 1);
        total[r] += __shfl_xor_sync(all_lanes, total[r], 2);
        factor[r] = total[r] == 0 ? 0.0F : view.kept / total[r];
        const int i = at.query + warp_of() * 16 + lane_of() / 4 + 8 * r;
        if (op.lse != nullptr && i < view.queries && lane_of() % 4 == 0) {
            op.lse[(static_cast<i64>(at.b) * view.heads + at.h) * view.queries + i] =
                total[r] == 0 ? -INFINITY : top[r] * static_cast<float>(view.scale) + logf(total[r]);
        }
    }
    write_sums(op.out + at.b * view.o.batch + at.h * dim, view.o.row, at.query, view.queries, 0, dim, out, factor);
}

template <class T, int D, Dropout Mode>
void launch_mode(Stream stream, const ops::AttentionForward<T>& op) {
    check(cudaFuncSetAttribute(mma_forward<T, D, Mode>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(Forward<D>::bytes)),
          "shared memory of attention_forward");
    const dim3 grid(static_cast<unsigned>(ceil_div(op.shape.queries, i64{mma_rows})),
                    static_cast<unsigned>(op.shape.heads), static_cast<unsigned>(op.shape.batch));
    mma_forward<T, D, Mode><<<grid, mma_threads, Forward<D>::bytes, native(stream)>>>(
        op, AttentionView(op.shape), attention_alignment(op.shape, op.q, op.k, op.v));
    check_launch("attention_forward");
}

template <class T, int D>
void launch(Stream stream, const ops::AttentionForward<T>& op) {
    if (op.shape.dropout.p > 0) {
        launch_mode<T, D, Dropout::on>(stream, op);
    } else {
        launch_mode<T, D, Dropout::off>(stream, op);
    }
}

}  // namespace

template <class T>
void attention_forward_mma(Stream stream, const ops::AttentionForward<T>& op) {
    if (op.shape.head_dim <= 32) {
        launch<T, 32>(stream, op);
    } else if (op.shape.head_dim <= 64) {
        launch<T, 64>(stream, op);
    } else if (op.shape.head_dim <= 128) {
        launch<T, 128>(stream, op);
    } else {
        launch<T, 256>(stream, op);
    }
}

}  // namespace ogrom::cuda
