// Attention backward in 16 bits on Hopper (Dao 2023, algorithm 2; Shah et al. 2024): a block owns 128 keys of a key
// head, 64 a warpgroup, sums dk and dv in registers and walks over tiles of queries, five products a tile. Scores are
// made transposed, [key, query], so that p and ds are left operands from registers; ds also goes through shared memory
// for dq. dq is summed over key tiles in device memory, fp32, in the order of falling key tiles: a counter of each tile
// of dq says whose turn it is, so the sums are repeatable. Blocks take their place by a ticket, in the order in which
// they wait for each other. A third warpgroup works the copy engine: one warp fetches, two add the warpgroups' pieces
// of dq. in: q, k, v, o, do, lse; out: dq, dk, dv.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_wgmma_sums.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ogrom::cuda {
namespace {

template <class T, int D>
struct Shared {
    using S = Backward<D>;
    T *k, *v, *q, *d_out, *ds;
    float *d_q, *lse, *delta;
    u64 *keys_full, *q_full, *d_out_full, *q_empty, *d_out_empty, *d_q_full, *d_q_empty;

    static constexpr i64 bytes =
        1024 +
        static_cast<i64>(sizeof(T)) * (2 * S::key_tile + 2 * S::stages * S::query_tile + S::stages * S::pair_tile) +
        static_cast<i64>(sizeof(float)) * (S::groups * piece + 2 * S::stages * S::queries) + 256;

    __device__ explicit Shared(unsigned char* start) {
        const u32 past = shared_address(start) % 1024;
        k = reinterpret_cast<T*>(start + (1024 - past) % 1024);
        v = k + S::key_tile;
        q = v + S::key_tile;
        d_out = q + S::stages * S::query_tile;
        ds = d_out + S::stages * S::query_tile;
        d_q = reinterpret_cast<float*>(ds + S::stages * S::pair_tile);
        lse = d_q + S::groups * piece;
        delta = lse + S::stages * S::queries;
        keys_full = reinterpret_cast<u64*>(delta + S::stages * S::queries);
        q_full = keys_full + 1;
        d_out_full = q_full + S::stages;
        q_empty = d_out_full + S::stages;
        d_out_empty = q_empty + S::stages;
        d_q_full = d_out_empty + S::stages;
        d_q_empty = d_q_full + S::groups;
    }
    __device__ void init() const {
        barrier_init(keys_full, 1);
        for (int s = 0; s < S::stages; ++s) {
            barrier_init(q_full + s, 1);
            barrier_init(d_out_full + s, 1);
            barrier_init(q_empty + s, S::groups * 4);  // one arrival a warp
            barrier_init(d_out_empty + s, S::groups * 4);
        }
        for (int g = 0; g < S::groups; ++g) {
            barrier_init(d_q_full + g, 4);
            barrier_init(d_q_empty + g, 1);
        }
        barriers_ready();
    }
};

struct BackwardMaps {
    CUtensorMap q, k, v, d_out;
};

#ifndef OGROM_NO_WGMMA
template <int Registers>
__device__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
__device__ inline void writes_for_async_proxy() {
    asm volatile("fence.proxy.async;" ::: "memory");
}
__device__ inline void copy_floats(float* to, const float* from, u32 count, u64* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(count * 4U), "r"(shared_address(barrier))
                 : "memory");
}

// The block's keys and the tiles of queries that see them.
struct Walk {
    int b, kv_head, key, first_tile, tiles;  // tiles of one head, 0 or more

    template <int D>
    __device__ static Walk of(const AttentionView& view, const Work& work, int ticket) {
        using S = Backward<D>;
        const int key_tiles = (view.keys + S::keys - 1) / S::keys, pair = ticket / key_tiles;
        const int key = (key_tiles - 1 - ticket % key_tiles) * S::keys;
        const int first = view.first_query(key);
        const int first_tile = first / S::queries;
        return {pair / view.kv_heads, pair % view.kv_heads, key, first_tile,
                first < view.queries ? work.tiles - first_tile : 0};
    }
};

template <class T, int D>
__device__ void fetch(const Shared<T, D>& shared, const BackwardMaps& maps, const AttentionView& view, const Work& work,
                      const Walk& walk) {
    using S = Backward<D>;
    barrier_expect(shared.keys_full, 2 * S::key_tile * sizeof(T));
    copy_tile<S::keys, D>(shared.k, &maps.k, shared.keys_full, walk.kv_head, walk.key, walk.b);
    copy_tile<S::keys, D>(shared.v, &maps.v, shared.keys_full, walk.kv_head, walk.key, walk.b);
    int step = 0;
    for (int h = walk.kv_head * view.group; h < (walk.kv_head + 1) * view.group; ++h) {
        const i64 head_rows = (static_cast<i64>(walk.b) * view.heads + h) * work.rows;
        for (int tile = walk.first_tile; tile < walk.first_tile + walk.tiles; ++tile, ++step) {
            const int stage = step % S::stages, query = tile * S::queries;
            const u32 parity = static_cast<u32>(step / S::stages % 2) ^ 1U;
            constexpr u32 bytes = S::query_tile * sizeof(T) + S::queries * sizeof(float);
            barrier_wait(shared.q_empty + stage, parity);
            barrier_expect(shared.q_full + stage, bytes);
            copy_tile<S::queries, D>(shared.q + stage * S::query_tile, &maps.q, shared.q_full + stage, h, query,
                                     walk.b);
            copy_floats(shared.lse + stage * S::queries, work.lse + head_rows + query, S::queries,
                        shared.q_full + stage);
            barrier_wait(shared.d_out_empty + stage, parity);
            barrier_expect(shared.d_out_full + stage, bytes);
            copy_tile<S::queries, D>(shared.d_out + stage * S::query_tile, &maps.d_out, shared.d_out_full + stage, h,
                                     query, walk.b);
            copy_floats(shared.delta + stage * S::queries, work.delta + head_rows + query, S::queries,
                        shared.d_out_full + stage);
        }
    }
}

__device__ inline void add_piece(float* to, const float* from, Start start) {
    if (start == Start::zero) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
                     "n"(piece * 4)
                     : "memory");
    } else {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
                     "r"(shared_address(from)), "n"(piece * 4)
                     : "memory");
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// One thread adds the pieces of warpgroup `group`: the first of a tile is stored, each later one waits for its turn.
template <class T, int D>
__device__ void add_pieces(const Shared<T, D>& shared, const AttentionView& view, const Work& work, const Walk& walk,
                           int group) {
    using S = Backward<D>;
    u32 parity = 0;
    for (int h = walk.kv_head * view.group; h < (walk.kv_head + 1) * view.group; ++h) {
        for (int tile = walk.first_tile; tile < walk.first_tile + walk.tiles; ++tile, parity ^= 1U) {
            const i64 place = ((static_cast<i64>(walk.b) * view.heads + h) * work.tiles + tile) * S::groups + group;
            const int last_key_tile = (view.reach((tile + 1) * S::queries) - 1) / S::keys;
            const u32 turn = static_cast<u32>(last_key_tile - walk.key / S::keys);
            u32* const counter = work.turn + place;
            barrier_wait(shared.d_q_full + group, parity);
            for (u32 now = 0; turn > 0;) {
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
                if (now == turn) {
                    break;
                }
            }
            writes_for_async_proxy();
            add_piece(work.d_q + place * piece, shared.d_q + group * piece, turn == 0 ? Start::zero : Start::add);
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            barrier_arrive(shared.d_q_empty + group);
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
            writes_for_async_proxy();
            asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(counter), "r"(turn + 1) : "memory");
        }
    }
}

// What a warpgroup keeps over the walk.
template <int D>
struct KeySums {
    Sums<D / 8> d_k, d_v;
};

// p and ds of 64 keys x 8 N queries from the two products; p -> scores, ds -> d_p.
template <int N>
__device__ void make_gradients(Sums<N>& scores, const float* lse, float scale2, const AttentionView& view, int key,
                               int query) {
    const int pair = lane_of() % 4 * 2;
#pragma unroll
    for (int n = 0; n < N; ++n) {
        const float2 shift = *reinterpret_cast<const float2*>(lse + 8 * n + pair);
        scores.at[n][0] = power_of_2(fmaf(scores.at[n][0], scale2, -shift.x));
        scores.at[n][1] = power_of_2(fmaf(scores.at[n][1], scale2, -shift.y));
        scores.at[n][2] = power_of_2(fmaf(scores.at[n][2], scale2, -shift.x));
        scores.at[n][3] = power_of_2(fmaf(scores.at[n][3], scale2, -shift.y));
    }
    if (key + 63 <= query + view.diagonal && key + 64 <= view.keys) {
        return;
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int j = key + warp_of() % 4 * 16 + lane_of() / 4 + 8 * r;
        const int first = j < view.keys ? j - view.diagonal - query - pair : view.queries + 1;  // column that sees j
#pragma unroll
        for (int n = 0; n < N; ++n) {
            scores.at[n][2 * r] = 8 * n >= first ? scores.at[n][2 * r] : 0.0F;
            scores.at[n][2 * r + 1] = 8 * n + 1 >= first ? scores.at[n][2 * r + 1] : 0.0F;
        }
    }
}

// Gradients of the scores to shared memory as [key, query], panels of 64 queries.
template <int N, int Keys, class T>
__device__ void store_gradients(T* ds, const Fragment (&packed)[N / 2], int group) {
    const int row = group * 64 + warp_of() % 4 * 16 + lane_of() / 4;
#pragma unroll
    for (int k = 0; k < N / 2; ++k) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int at = row + e % 2 * 8, chunk = (2 * k + e / 2) % 8, side = (2 * k + e / 2) / 8;
            T* const to = ds + side * Keys * panel + at * panel + ((chunk ^ (at & 7)) * 8) + lane_of() % 4 * 2;
            *reinterpret_cast<u32*>(to) = packed[k].at[e];
        }
    }
}

template <class T, int D>
__device__ void consume(const Shared<T, D>& shared, const AttentionView& view, const Walk& walk, KeySums<D>& sums) {
    using S = Backward<D>;
    constexpr int N = S::queries / 8;
    const int group = static_cast<int>(threadIdx.x) / warpgroup, key = walk.key + group * 64;
    const float scale2 = static_cast<float>(view.scale) * log2_e;
    const auto release = [](u64* barrier) {
        if (lane_of() == 0) {
            barrier_arrive(barrier);
        }
    };
    const int steps = view.group * walk.tiles;
    barrier_wait(shared.keys_full, 0);
    for (int step = 0, tile = 0; step < steps; ++step) {
        const int stage = step % S::stages, query = (walk.first_tile + tile) * S::queries;
        const u32 parity = static_cast<u32>(step / S::stages % 2);
        const T* const q = shared.q + stage * S::query_tile;
        const T* const d_out = shared.d_out + stage * S::query_tile;
        T* const ds = shared.ds + stage * S::pair_tile;
        tile = tile + 1 == walk.tiles ? 0 : tile + 1;
        Sums<N> scores, d_p;
        barrier_wait(shared.q_full + stage, parity);
        wgmma_begin();
        wgmma_rows<D, S::keys, S::queries>(scores, shared.k + group * 64 * panel, q);
        wgmma_commit();
        barrier_wait(shared.d_out_full + stage, parity);
        wgmma_rows<D, S::keys, S::queries>(d_p, shared.v + group * 64 * panel, d_out);
        wgmma_commit();
        wgmma_wait<1>();
        hold(scores);
        make_gradients(scores, shared.lse + stage * S::queries, scale2, view, key, query);
        Fragment p[N / 2], gradients[N / 2];
#pragma unroll
        for (int k = 0; k < N / 2; ++k) {
            p[k] = scores.template left<T>(k);
        }
        wgmma_wait<0>();
        hold(d_p);
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const float2 mean =
                *reinterpret_cast<const float2*>(shared.delta + stage * S::queries + 8 * n + lane_of() % 4 * 2);
            d_p.at[n][0] = scores.at[n][0] * (d_p.at[n][0] - mean.x);
            d_p.at[n][1] = scores.at[n][1] * (d_p.at[n][1] - mean.y);
            d_p.at[n][2] = scores.at[n][2] * (d_p.at[n][2] - mean.x);
            d_p.at[n][3] = scores.at[n][3] * (d_p.at[n][3] - mean.y);
        }
#pragma unroll
        for (int k = 0; k < N / 2; ++k) {
            gradients[k] = d_p.template left<T>(k);
        }
        wgmma_begin();
        wgmma_weighted(sums.d_v, p, d_out, Start::add);
        wgmma_commit();
        store_gradients<N, S::keys>(ds, gradients, group);
        writes_for_async_proxy();
        barrier_of(1, S::groups * warpgroup);  // both have written ds, and have read what the other stage held
        wgmma_begin();
        Sums<8> d_q;
        const T* const left = ds + (D == 64 ? group * S::keys * panel : 0);
        const T* const right = shared.k + (D == 64 ? 0 : group * S::keys * panel);
#pragma unroll
        for (int k = 0; k < S::keys / 16; ++k) {
            wgmma<T, 1, 1>(d_q, operand(left + k * 16 * panel), operand(right + k * 16 * panel),
                           k == 0 ? Start::zero : Start::add);
        }
        wgmma_commit();
        wgmma_weighted(sums.d_k, gradients, q, Start::add);
        wgmma_commit();
        wgmma_wait<1>();
        hold(d_q);
        hold(sums.d_v);
        release(shared.d_out_empty + stage);
        barrier_wait(shared.d_q_empty + group, static_cast<u32>(step % 2) ^ 1U);
        float4* const to = reinterpret_cast<float4*>(shared.d_q + group * piece);
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            to[n * warpgroup + static_cast<int>(threadIdx.x) % warpgroup] =
                make_float4(d_q.at[n][0], d_q.at[n][1], d_q.at[n][2], d_q.at[n][3]);
        }
        writes_for_async_proxy();
        __syncwarp();
        release(shared.d_q_full + group);
        wgmma_wait<0>();
        hold(sums.d_k);
        release(shared.q_empty + stage);
    }
}
#endif

template <class T, int D>
__global__ void __launch_bounds__(Backward<D>::threads, 1)
    wgmma_backward(ops::AttentionBackward<T> op, AttentionView view, Work work,
                   const __grid_constant__ BackwardMaps maps) {
#ifndef OGROM_NO_WGMMA
    using S = Backward<D>;
    extern __shared__ unsigned char memory[];
    __shared__ u32 drawn;
    const Shared<T, D> shared(memory);
    if (threadIdx.x == 0) {
        drawn = atomicAdd(work.ticket, 1U);
        shared.init();
    }
    __syncthreads();
    const Walk walk = Walk::of<D>(view, work, static_cast<int>(drawn));
    if (static_cast<int>(threadIdx.x) >= S::groups * warpgroup) {
        give_registers<24>();
        const int role = warp_of() - S::groups * 4;
        if (lane_of() == 0 && role == 0) {
            fetch<T, D>(shared, maps, view, work, walk);
        } else if (lane_of() == 0 && role <= S::groups) {
            add_pieces<T, D>(shared, view, work, walk, role - 1);
        }
        return;
    }
    take_registers<240>();
    KeySums<D> sums;
    sums.d_k.clear();
    sums.d_v.clear();
    consume<T, D>(shared, view, walk, sums);
    const float scale = static_cast<float>(view.scale);
    const float scales[2] = {scale, scale}, ones[2] = {1.0F, 1.0F};
    const i64 head = walk.kv_head * static_cast<i64>(view.head_dim);
    write_sums(op.d_k + walk.b * view.k.batch + head, view.k.row, walk.key, view.keys, 0, view.head_dim, sums.d_k,
               scales);
    write_sums(op.d_v + walk.b * view.v.batch + head, view.v.row, walk.key, view.keys, 0, view.head_dim, sums.d_v,
               ones);
#endif
}

template <class T, int D>
void launch(Stream stream, const ops::AttentionBackward<T>& op, void* workspace) {
    using S = Backward<D>;
    const ops::AttentionShape& s = op.shape;
    const AttentionView view(s);
    const Work work = work_of<D>(s, workspace);
    const BackwardMaps maps{map_of(op.q, view.q, s.head_dim, s.heads, s.queries, s.batch, S::queries),
                            map_of(op.k, view.k, s.head_dim, s.kv_heads, s.keys, s.batch, S::keys),
                            map_of(op.v, view.v, s.head_dim, s.kv_heads, s.keys, s.batch, S::keys),
                            map_of(op.d_out, view.o, s.head_dim, s.heads, s.queries, s.batch, S::queries)};
    check(cudaFuncSetAttribute(wgmma_backward<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(Shared<T, D>::bytes)),
          "shared memory of attention_backward");
    const i64 rows = s.batch * s.heads * work.rows;
    prepare<T, D><<<grid_of(ceil_div(rows * 16, flat_threads)), flat_threads, 0, native(stream)>>>(op, view, work);
    check_launch("attention_backward of delta");
    const i64 blocks = s.batch * s.kv_heads * ceil_div(s.keys, i64{S::keys});
    wgmma_backward<T, D>
        <<<static_cast<unsigned>(blocks), S::threads, Shared<T, D>::bytes, native(stream)>>>(op, view, work, maps);
    check_launch("attention_backward");
    const dim3 pieces(static_cast<unsigned>(work.tiles * S::groups), static_cast<unsigned>(s.heads),
                      static_cast<unsigned>(s.batch));
    finish<T, D><<<pieces, warpgroup, 0, native(stream)>>>(op, view, work);
    check_launch("attention_backward of dq");
}

}  // namespace

i64 attention_wgmma_bytes(const ops::AttentionShape& shape) {
    return shape.head_dim <= 64 ? bytes_of<64>(shape) : bytes_of<128>(shape);
}

template <class T>
void attention_backward_wgmma(Stream stream, const ops::AttentionBackward<T>& op, void* workspace) {
    if (op.shape.head_dim <= 64) {
        launch<T, 64>(stream, op, workspace);
    } else {
        launch<T, 128>(stream, op, workspace);
    }
}

template void attention_backward_wgmma(Stream, const ops::AttentionBackward<Bf16>&, void*);
template void attention_backward_wgmma(Stream, const ops::AttentionBackward<Fp16>&, void*);

}  // namespace ogrom::cuda
