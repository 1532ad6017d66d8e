// Around the wgmma backward kernel: its tiles and working memory, what is made before it (lse, delta, counters) and
// after it (dq from its sums). Included by attention_wgmma_backward.cu alone.
#pragma once
#include "kernels/cuda/attention_wgmma.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ogrom::cuda {
namespace {

template <int D>
struct Backward {
    static constexpr int keys = 128, queries = D == 64 ? 128 : 64;
    static constexpr int groups = 2, stages = 2, threads = (groups + 1) * warpgroup;
    static constexpr int key_tile = keys * D, query_tile = queries * D, pair_tile = keys * queries;
};
constexpr int piece = 64 * 64;  // floats of dq that a warpgroup makes of a tile, in the order of its registers

// Working memory. Rows of a head are padded to whole tiles: lse in base 2 (+inf where p is 0), delta; sums of dq as
// [batch, heads, tile, warpgroup, piece]; whose turn it is, [batch, heads, tile, warpgroup]; the next ticket.
struct Work {
    int tiles, rows;  // of one head
    float *lse, *delta, *d_q;
    u32 *turn, *ticket;
};

template <int D>
Work work_of(const ops::AttentionShape& s, void* memory) {
    using B = Backward<D>;
    Work w{};
    w.tiles = static_cast<int>(ceil_div(s.queries, i64{B::queries}));
    w.rows = w.tiles * B::queries;
    const i64 heads = s.batch * s.heads, rows = heads * w.rows;
    w.d_q = static_cast<float*>(memory);
    w.lse = w.d_q + heads * w.tiles * B::groups * piece;
    w.delta = w.lse + rows;
    w.turn = reinterpret_cast<u32*>(w.delta + rows);
    w.ticket = w.turn + heads * w.tiles * B::groups;
    return w;
}

// lse and delta, 16 lanes a row, heads side by side; counters to 0.
template <class T, int D>
__global__ void __launch_bounds__(flat_threads) prepare(ops::AttentionBackward<T> op, AttentionView view, Work work) {
    const i64 padded = static_cast<i64>(view.batch) * work.rows * view.heads;
    const i64 thread = static_cast<i64>(blockIdx.x) * flat_threads + threadIdx.x;
    const i64 turns = static_cast<i64>(view.batch) * view.heads * work.tiles * Backward<D>::groups + 1;
    if (thread < turns) {
        work.turn[thread] = 0;
    }
    const i64 row = thread / 16;
    if (row >= padded) {
        return;
    }
    const i64 h = row % view.heads, i = row / view.heads % work.rows, b = row / view.heads / work.rows;
    const int column = static_cast<int>(threadIdx.x) % 16 * 8;
    float sum = 0;
    if (i < view.queries && column < view.head_dim) {
        const i64 start = b * view.o.batch + i * view.o.row + h * view.head_dim + column;
        const auto out = load<8>(op.out + start), d_out = load<8>(op.d_out + start);
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            sum += static_cast<float>(out.at[c]) * static_cast<float>(d_out.at[c]);
        }
    }
#pragma unroll
    for (int distance = 8; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(all_lanes, sum, distance);
    }
    if (column == 0) {
        const i64 to = (b * view.heads + h) * work.rows + i;
        const float lse = i < view.queries ? op.lse[(b * view.heads + h) * view.queries + i] : -INFINITY;
        work.lse[to] = lse == -INFINITY ? INFINITY : lse * log2_e;
        work.delta[to] = sum;
    }
}

// dq = scale * sums, where there are any.
template <class T, int D>
__global__ void __launch_bounds__(warpgroup) finish(ops::AttentionBackward<T> op, AttentionView view, Work work) {
    using S = Backward<D>;
    const int group = static_cast<int>(blockIdx.x) % S::groups, tile = static_cast<int>(blockIdx.x) / S::groups;
    const int h = static_cast<int>(blockIdx.y), b = static_cast<int>(blockIdx.z);
    const i64 place = ((static_cast<i64>(b) * view.heads + h) * work.tiles + tile) * S::groups + group;
    const float4* const from = reinterpret_cast<const float4*>(work.d_q + place * piece);
    const bool summed = view.reach((tile + 1) * S::queries) > 0;
    Sums<8> sums;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        const float4 four = summed ? from[n * warpgroup + threadIdx.x] : make_float4(0, 0, 0, 0);
        sums.at[n][0] = four.x;
        sums.at[n][1] = four.y;
        sums.at[n][2] = four.z;
        sums.at[n][3] = four.w;
    }
    const float scale = static_cast<float>(view.scale);
    const float scales[2] = {scale, scale};
    const int row = tile * S::queries + (D == 64 ? group * 64 : 0), column = D == 64 ? 0 : group * 64;
    write_sums(op.d_q + b * view.q.batch + h * view.head_dim, view.q.row, row, view.queries, column, view.head_dim,
               sums, scales);
}

template <int D>
i64 bytes_of(const ops::AttentionShape& s) {
    using B = Backward<D>;
    const i64 heads = s.batch * s.heads, tiles = ceil_div(s.queries, i64{B::queries});
    const i64 words = heads * tiles * (B::groups * (i64{piece} + 1) + 2 * B::queries) + 1;
    return words * static_cast<i64>(sizeof(float));
}

}  // namespace
}  // namespace ogrom::cuda
