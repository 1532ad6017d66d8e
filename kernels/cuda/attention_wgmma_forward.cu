// Attention forward in 16 bits on Hopper (Shah et al. 2024, FlashAttention-3): a block owns 128 queries of a head, 64 a
// warpgroup, and walks over tiles of keys; thread 0 keeps the copy engine busy. The product of the next scores runs
// while probabilities of this tile are weighted. in: q, k, v; out: o, lse.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_wgmma.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ogrom::cuda {
namespace {

template <int D>
struct Forward {
    static constexpr int queries = 128, groups = queries / 64;
    static constexpr int keys = D == 64 ? 64 : 128;  // of a tile
    static constexpr int stages = D == 64 ? 3 : 2;
    static constexpr int blocks = D == 64 ? 2 : 1;  // on a multiprocessor
    static constexpr int threads = groups * warpgroup;
    static constexpr int tile = keys * D;
    static constexpr i64 bytes = static_cast<i64>(sizeof(Bf16)) * (queries * D + 2 * stages * tile) + 1024 + 256;
};

template <class T, int D>
struct Shared {
    using S = Forward<D>;
    T *q, *k, *v;
    u64 *q_full, *k_full, *v_full, *k_empty, *v_empty;  // one of the latter for each stage

    __device__ explicit Shared(unsigned char* start) {
        const u32 past = shared_address(start) % 1024;
        q = reinterpret_cast<T*>(start + (1024 - past) % 1024);
        k = q + S::queries * D;
        v = k + S::stages * S::tile;
        q_full = reinterpret_cast<u64*>(v + S::stages * S::tile);
        k_full = q_full + 1;
        v_full = k_full + S::stages;
        k_empty = v_full + S::stages;
        v_empty = k_empty + S::stages;
    }
    __device__ void init() const {
        barrier_init(q_full, 1);
        for (int s = 0; s < S::stages; ++s) {
            barrier_init(k_full + s, 1);
            barrier_init(v_full + s, 1);
            barrier_init(k_empty + s, S::groups * 4);  // one arrival a warp
            barrier_init(v_empty + s, S::groups * 4);
        }
        barriers_ready();
    }
};

struct ForwardMaps {
    CUtensorMap q, k, v;
};

#ifndef OGROM_NO_WGMMA
// Row maxima and sums of the thread's two rows, in base 2; the sums are over its own columns.
struct Rows {
    float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0}, correction[2] = {0, 0};

    template <int N>
    __device__ void soften(Sums<N>& scores, float scale2) {
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
            correction[r] = power_of_2(top[r] * scale2 - shift);
            top[r] = most;
            float sum = 0;
#pragma unroll
            for (int n = 0; n < N; ++n) {
#pragma unroll
                for (int c = 0; c < 2; ++c) {
                    float& score = scores.at[n][2 * r + c];
                    score = power_of_2(fmaf(score, scale2, -shift));
                    sum += score;
                }
            }
            total[r] = total[r] * correction[r] + sum;
        }
    }
};

// Which head and sample a block copies from; called by thread 0.
template <class T, int D>
struct Feeder {
    using S = Forward<D>;
    const Shared<T, D>& shared;
    const ForwardMaps& maps;
    int tiles, kv_head, b;

    __device__ void keys(int t) const {
        u64* const full = shared.k_full + t % S::stages;
        barrier_expect(full, S::tile * sizeof(T));
        copy_tile<S::keys, D>(shared.k + t % S::stages * S::tile, &maps.k, full, kv_head, t * S::keys, b);
    }
    __device__ void values(int t) const {
        u64* const full = shared.v_full + t % S::stages;
        barrier_expect(full, S::tile * sizeof(T));
        copy_tile<S::keys, D>(shared.v + t % S::stages * S::tile, &maps.v, full, kv_head, t * S::keys, b);
    }
    __device__ void begin(int query, int h) const {
        barrier_expect(shared.q_full, S::queries * D * sizeof(T));
        copy_tile<S::queries, D>(shared.q, &maps.q, shared.q_full, h, query, b);
        for (int t = 0; t < S::stages && t < tiles; ++t) {
            keys(t);
            values(t);
        }
    }
    // Before tile t: the keys of t - 1 and the values of t - 2 are used up, or are about to be by the other warpgroup.
    __device__ void refill(int t) const {
        const int used = t - 1, used_values = t - 2;
        if (used + S::stages < tiles) {
            barrier_wait(shared.k_empty + used % S::stages, static_cast<u32>(used / S::stages % 2));
            keys(used + S::stages);
        }
        if (used_values >= 0 && used_values + S::stages < tiles) {
            barrier_wait(shared.v_empty + used_values % S::stages, static_cast<u32>(used_values / S::stages % 2));
            values(used_values + S::stages);
        }
    }
};

// -inf for keys in the future of the thread's rows, row0 and row0 + 8, or past the end.
template <int N>
__device__ void mask_scores(Sums<N>& scores, const AttentionView& view, int row0, int key) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int seen = min(row0 + 8 * r + view.diagonal + 1, view.keys) - key - lane_of() % 4 * 2;
#pragma unroll
        for (int n = 0; n < N; ++n) {
            scores.at[n][2 * r] = 8 * n < seen ? scores.at[n][2 * r] : -INFINITY;
            scores.at[n][2 * r + 1] = 8 * n + 1 < seen ? scores.at[n][2 * r + 1] : -INFINITY;
        }
    }
}

// One warpgroup's 64 queries from `query`.
template <class T, int D>
__device__ void consume(const Shared<T, D>& shared, const Feeder<T, D>& feeder, const AttentionView& view, int query,
                        Sums<D / 8>& out, Rows& rows) {
    using S = Forward<D>;
    constexpr int N = S::keys / 8, K = S::keys / 16;
    const int tiles = feeder.tiles, group = static_cast<int>(threadIdx.x) / warpgroup;
    const int row0 = query + warp_of() % 4 * 16 + lane_of() / 4;
    const T* const q = shared.q + group * 64 * panel;
    const float scale2 = static_cast<float>(view.scale) * log2_e;
    const auto parity = [](int t) { return static_cast<u32>(t / S::stages % 2); };
    const auto release = [](u64* barrier) {
        if (lane_of() == 0) {
            barrier_arrive(barrier);
        }
    };
    Sums<N> scores;
    Fragment p[K];
    const auto finish_scores = [&](int t) {
        const int key = t * S::keys;
        if (key + S::keys - 1 > query + view.diagonal || key + S::keys > view.keys) {
            mask_scores(scores, view, row0, key);
        }
        rows.soften(scores, scale2);
    };
    const auto round_scores = [&] {
#pragma unroll
        for (int k = 0; k < K; ++k) {
            p[k] = scores.template left<T>(k);
        }
    };
    barrier_wait(shared.q_full, 0);
    barrier_wait(shared.k_full, 0);
    wgmma_begin();
    wgmma_rows<D, S::queries, S::keys>(scores, q, shared.k);
    wgmma_commit();
    wgmma_wait<0>();
    hold(scores);
    release(shared.k_empty);
    finish_scores(0);
    round_scores();
    for (int t = 1; t < tiles; ++t) {
        const int stage = t % S::stages, before = (t - 1) % S::stages;
        if (threadIdx.x == 0) {
            feeder.refill(t);
        }
        __syncwarp();
        barrier_wait(shared.k_full + stage, parity(t));
        wgmma_begin();
        wgmma_rows<D, S::queries, S::keys>(scores, q, shared.k + stage * S::tile);
        wgmma_commit();
        barrier_wait(shared.v_full + before, parity(t - 1));
        wgmma_weighted(out, p, shared.v + before * S::tile, t == 1 ? Start::zero : Start::add);
        wgmma_commit();
        wgmma_wait<1>();
        hold(scores);
        release(shared.k_empty + stage);
        finish_scores(t);
        wgmma_wait<0>();
        hold(out);
        release(shared.v_empty + before);
#pragma unroll
        for (auto& four : out.at) {
            four[0] *= rows.correction[0];
            four[1] *= rows.correction[0];
            four[2] *= rows.correction[1];
            four[3] *= rows.correction[1];
        }
        round_scores();
    }
    const int last = (tiles - 1) % S::stages;
    barrier_wait(shared.v_full + last, parity(tiles - 1));
    wgmma_begin();
    wgmma_weighted(out, p, shared.v + last * S::tile, tiles == 1 ? Start::zero : Start::add);
    wgmma_commit();
    wgmma_wait<0>();
    hold(out);
}
#endif

template <class T, int D>
__global__ void __launch_bounds__(Forward<D>::threads, Forward<D>::blocks)
    wgmma_forward(ops::AttentionForward<T> op, AttentionView view, const __grid_constant__ ForwardMaps maps) {
#ifndef OGROM_NO_WGMMA
    using S = Forward<D>;
    extern __shared__ unsigned char memory[];
    const Shared<T, D> shared(memory);
    const int b = static_cast<int>(blockIdx.z), h = static_cast<int>(blockIdx.y);
    const int query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * S::queries;  // long tiles first
    const int tiles = (view.reach(query + S::queries) + S::keys - 1) / S::keys;
    const Feeder<T, D> feeder{shared, maps, tiles, h / view.group, b};
    if (threadIdx.x == 0) {
        shared.init();
        if (tiles > 0) {
            feeder.begin(query, h);
        }
    }
    __syncthreads();
    const int own = query + static_cast<int>(threadIdx.x) / warpgroup * 64;
    Sums<D / 8> out;
    Rows rows;
    if (tiles > 0) {
        consume<T, D>(shared, feeder, view, own, out, rows);
    } else {
        out.clear();
    }
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float& total = rows.total[r];
        total += __shfl_xor_sync(all_lanes, total, 1);
        total += __shfl_xor_sync(all_lanes, total, 2);
        factor[r] = total == 0 ? 0.0F : 1.0F / total;
        const int i = own + warp_of() % 4 * 16 + lane_of() / 4 + 8 * r;
        if (op.lse != nullptr && i < view.queries && lane_of() % 4 == 0) {
            op.lse[(static_cast<i64>(b) * view.heads + h) * view.queries + i] =
                total == 0 ? -INFINITY : rows.top[r] * static_cast<float>(view.scale) + logf(total);
        }
    }
    write_sums(op.out + b * view.o.batch + h * view.head_dim, view.o.row, own - warp_of() / 4 * 64, view.queries, 0,
               view.head_dim, out, factor);
#endif
}

template <class T, int D>
void launch(Stream stream, const ops::AttentionForward<T>& op) {
    using S = Forward<D>;
    const AttentionView view(op.shape);
    const ops::AttentionShape& s = op.shape;
    const ForwardMaps maps{map_of(op.q, view.q, s.head_dim, s.heads, s.queries, s.batch, S::queries),
                           map_of(op.k, view.k, s.head_dim, s.kv_heads, s.keys, s.batch, S::keys),
                           map_of(op.v, view.v, s.head_dim, s.kv_heads, s.keys, s.batch, S::keys)};
    check(cudaFuncSetAttribute(wgmma_forward<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(S::bytes)),
          "shared memory of attention_forward");
    const dim3 grid(static_cast<unsigned>(ceil_div(s.queries, i64{S::queries})), static_cast<unsigned>(s.heads),
                    static_cast<unsigned>(s.batch));
    wgmma_forward<T, D><<<grid, S::threads, S::bytes, native(stream)>>>(op, view, maps);
    check_launch("attention_forward");
}

}  // namespace

template <class T>
void attention_forward_wgmma(Stream stream, const ops::AttentionForward<T>& op) {
    if (op.shape.head_dim <= 64) {
        launch<T, 64>(stream, op);
    } else {
        launch<T, 128>(stream, op);
    }
}

template void attention_forward_wgmma(Stream, const ops::AttentionForward<Bf16>&);
template void attention_forward_wgmma(Stream, const ops::AttentionForward<Fp16>&);

}  // namespace ogrom::cuda
