// layernorm_forward of kernels/ops/layernorm.h: mean, then the squared distances from it, then y.
#include "kernels/cuda/layernorm.cuh"

namespace ogrom::cuda {
namespace {

template <class T>
__device__ T rstd_of(T squares, const ops::LayerNormForward<T>& op) {
    return T(1) / sqrt(squares / static_cast<T>(op.C) + static_cast<T>(op.epsilon));
}

template <class T>
__device__ void keep_statistics(const ops::LayerNormForward<T>& op, i64 row, T mean, T rstd) {
    if (op.mean != nullptr) {
        op.mean[row] = mean;
    }
    if (op.rstd != nullptr) {
        op.rstd[row] = rstd;
    }
}

template <class T, int W>
__global__ void __launch_bounds__(row_threads<W>) forward_held(ops::LayerNormForward<T> op) {
    constexpr int V = wide<T>;
    constexpr int P = lane_packs<T>;
    constexpr int R = rows_at_a_time<W>;
    __shared__ T slots[2][W * R];
    const int lane = static_cast<int>(threadIdx.x) % (32 * W);
    const i64 in_block = threadIdx.x / (32 * W);
    const T width = static_cast<T>(op.C);
    for (i64 base = static_cast<i64>(blockIdx.x) * R; base < op.rows; base += static_cast<i64>(gridDim.x) * R) {
        const i64 row = base + in_block;
        const bool here = row < op.rows;
        Values<T, V> x[P];
        T sum = 0;
#pragma unroll
        for (int p = 0; p < P; ++p) {
            const i64 c = static_cast<i64>(p * 32 * W + lane) * V;
            x[p] = here && c < op.C ? load<V>(op.x + row * op.C + c) : Values<T, V>{};
#pragma unroll
            for (int v = 0; v < V; ++v) {
                sum += x[p].at[v];
            }
        }
        const T mean = group_sum<W>(sum, slots[0]) / width;
        T squares = 0;
#pragma unroll
        for (int p = 0; p < P; ++p) {
            const i64 c = static_cast<i64>(p * 32 * W + lane) * V;
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const T d = x[p].at[v] - mean;
                squares += c < op.C ? d * d : T(0);
            }
        }
        const T rstd = rstd_of(group_sum<W>(squares, slots[1]), op);
        if (!here) {
            continue;
        }
        if (lane == 0) {
            keep_statistics(op, row, mean, rstd);
        }
#pragma unroll
        for (int p = 0; p < P; ++p) {
            const i64 c = static_cast<i64>(p * 32 * W + lane) * V;
            if (c < op.C) {
                const Values<T, V> gamma = load<V>(op.gamma + c);
                const Values<T, V> beta = op.beta != nullptr ? load<V>(op.beta + c) : Values<T, V>{};
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    x[p].at[v] = (x[p].at[v] - mean) * rstd * gamma.at[v] + beta.at[v];
                }
                store<V>(op.y + row * op.C + c, x[p]);
            }
        }
    }
}

constexpr int passing_warps = 8;

// Any width and alignment: a block a row.
template <class T>
__global__ void __launch_bounds__(32 * passing_warps) forward_passing(ops::LayerNormForward<T> op) {
    __shared__ T slots[2][passing_warps];
    for (i64 row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const T* x = op.x + row * op.C;
        T sum = 0;
        for (i64 c = threadIdx.x; c < op.C; c += blockDim.x) {
            sum += x[c];
        }
        const T mean = group_sum<passing_warps>(sum, slots[0]) / static_cast<T>(op.C);
        T squares = 0;
        for (i64 c = threadIdx.x; c < op.C; c += blockDim.x) {
            const T d = x[c] - mean;
            squares += d * d;
        }
        const T rstd = rstd_of(group_sum<passing_warps>(squares, slots[1]), op);
        if (threadIdx.x == 0) {
            keep_statistics(op, row, mean, rstd);
        }
        for (i64 c = threadIdx.x; c < op.C; c += blockDim.x) {
            const T beta = op.beta != nullptr ? op.beta[c] : T(0);
            op.y[row * op.C + c] = (x[c] - mean) * rstd * op.gamma[c] + beta;
        }
    }
}

}  // namespace

template <class T>
void layernorm_forward(Stream stream, const ops::LayerNormForward<T>& op) {
    if (op.rows == 0 || op.C == 0) {
        return;
    }
    const bool held = op.C <= held_columns<T> && op.C % wide<T> == 0 && aligned16(op.y, op.x, op.gamma, op.beta);
    if (!held) {
        forward_passing<<<grid_of(op.rows), 32 * passing_warps, 0, native(stream)>>>(op);
        check_launch("layernorm_forward");
        return;
    }
    with_warps<T>(op.C, [&](auto warps) {
        constexpr int W = decltype(warps)::value;
        forward_held<T, W><<<grid_of(ceil_div(op.rows, rows_at_a_time<W>)), row_threads<W>, 0, native(stream)>>>(op);
        check_launch("layernorm_forward");
    });
}

template void layernorm_forward(Stream, const ops::LayerNormForward<float>&);
template void layernorm_forward(Stream, const ops::LayerNormForward<double>&);

}  // namespace ogrom::cuda
