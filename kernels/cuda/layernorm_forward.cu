// layernorm_forward of kernels/ops/layernorm.h and residual_norm_forward: mean, then the squared distances from it,
// then y.
#include "kernels/cuda/dropout.cuh"
#include "kernels/cuda/layernorm.cuh"

namespace ogrom::cuda {
namespace {

template <class T>
__device__ Math<T> rstd_of(Math<T> squares, const ops::LayerNormForward<T>& op) {
    return Math<T>(1) / sqrt(squares / static_cast<Math<T>>(op.C) + static_cast<Math<T>>(op.epsilon));
}

template <class T>
__device__ void keep_statistics(const ops::LayerNormForward<T>& op, i64 row, Math<T> mean, Math<T> rstd) {
    if (op.mean != nullptr) {
        op.mean[row] = mean;
    }
    if (op.rstd != nullptr) {
        op.rstd[row] = rstd;
    }
}

// Where a row's packs come from: memory, or the joint of a branch and the stream, which is kept as it is made.
template <class T>
struct StoredRows {
    const T* x;
    i64 C;

    __device__ Values<T, wide<T>> operator()(i64 row, i64 c) const { return load<wide<T>>(x + row * C + c); }
};

template <class T>
struct JoinedRows {
    ops::ResidualForward<T> op;
    Mask mask;

    __device__ Values<T, wide<T>> operator()(i64 row, i64 c) const {
        constexpr int V = wide<T>;
        const i64 start = row * op.C + c;
        Values<T, V> y = load<V>(op.x + start);
        Values<T, V> branch = load<V>(op.branch + start);
        if (op.bias != nullptr) {
            const Values<T, V> bias = load<V>(op.bias + c);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                branch.at[v] += bias.at[v];
            }
        }
        if (mask.spec.p > 0) {
            mask.apply(branch, mask.row_element(row) + c);
        }
#pragma unroll
        for (int v = 0; v < V; ++v) {
            y.at[v] = stored<T>(y.at[v] + branch.at[v]);
        }
        store<V>(op.y + start, y);
        return y;
    }
};

template <class T, int W, int P, class Rows>
__global__ void __launch_bounds__(row_threads<W>) forward_held(ops::LayerNormForward<T> op, Rows rows) {
    constexpr int V = wide<T>;
    constexpr int R = rows_at_a_time<W>;
    __shared__ Math<T> slots[2][W * R];
    const int lane = static_cast<int>(threadIdx.x) % (32 * W);
    const i64 in_block = threadIdx.x / (32 * W);
    const Math<T> width = static_cast<Math<T>>(op.C);
    for (i64 base = static_cast<i64>(blockIdx.x) * R; base < op.rows; base += static_cast<i64>(gridDim.x) * R) {
        const i64 row = base + in_block;
        const bool here = row < op.rows;
        Values<T, V> x[P];
        Math<T> sum = 0;
#pragma unroll
        for (int p = 0; p < P; ++p) {
            const i64 c = static_cast<i64>(p * 32 * W + lane) * V;
            x[p] = here && c < op.C ? rows(row, c) : Values<T, V>{};
#pragma unroll
            for (int v = 0; v < V; ++v) {
                sum += x[p].at[v];
            }
        }
        const Math<T> mean = group_sum<W>(sum, slots[0]) / width;
        Math<T> squares = 0;
#pragma unroll
        for (int p = 0; p < P; ++p) {
            const i64 c = static_cast<i64>(p * 32 * W + lane) * V;
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const Math<T> d = x[p].at[v] - mean;
                squares += c < op.C ? d * d : Math<T>(0);
            }
        }
        const Math<T> rstd = rstd_of(group_sum<W>(squares, slots[1]), op);
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
    __shared__ Math<T> slots[2][passing_warps];
    for (i64 row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const T* x = op.x + row * op.C;
        Math<T> sum = 0;
        for (i64 c = threadIdx.x; c < op.C; c += blockDim.x) {
            sum += static_cast<Math<T>>(x[c]);
        }
        const Math<T> mean = group_sum<passing_warps>(sum, slots[0]) / static_cast<Math<T>>(op.C);
        Math<T> squares = 0;
        for (i64 c = threadIdx.x; c < op.C; c += blockDim.x) {
            const Math<T> d = static_cast<Math<T>>(x[c]) - mean;
            squares += d * d;
        }
        const Math<T> rstd = rstd_of(group_sum<passing_warps>(squares, slots[1]), op);
        if (threadIdx.x == 0) {
            keep_statistics(op, row, mean, rstd);
        }
        for (i64 c = threadIdx.x; c < op.C; c += blockDim.x) {
            const Math<T> beta = op.beta != nullptr ? static_cast<Math<T>>(op.beta[c]) : Math<T>(0);
            const auto centred = static_cast<Math<T>>(x[c]) - mean;
            op.y[row * op.C + c] = static_cast<T>(centred * rstd * static_cast<Math<T>>(op.gamma[c]) + beta);
        }
    }
}

template <class T>
bool rows_held(const ops::LayerNormForward<T>& op) {
    return op.C <= held_columns<T> && op.C % wide<T> == 0 && aligned16(op.y, op.x, op.gamma, op.beta);
}

template <class T, class Rows>
void run_held(Stream stream, const ops::LayerNormForward<T>& op, const Rows& rows, const char* operation) {
    with_warps_and_packs<T>(op.C, [&](auto warps, auto packs) {
        constexpr int W = decltype(warps)::value;
        constexpr int P = decltype(packs)::value;
        forward_held<T, W, P>
            <<<grid_of(ceil_div(op.rows, rows_at_a_time<W>)), row_threads<W>, 0, native(stream)>>>(op, rows);
        check_launch(operation);
    });
}

}  // namespace

template <class T>
void layernorm_forward(Stream stream, const ops::LayerNormForward<T>& op) {
    if (op.rows == 0 || op.C == 0) {
        return;
    }
    if (!rows_held(op)) {
        forward_passing<<<grid_of(op.rows), 32 * passing_warps, 0, native(stream)>>>(op);
        check_launch("layernorm_forward");
        return;
    }
    run_held(stream, op, StoredRows<T>{op.x, op.C}, "layernorm_forward");
}

template <class T>
void residual_norm_forward(Stream stream, const ops::ResidualNormForward<T>& op) {
    const ops::ResidualForward<T>& residual = op.residual;
    const ops::LayerNormForward<T> norm = ops::norm_of(op);
    if (norm.rows == 0 || norm.C == 0) {
        return;
    }
    if (!rows_held(norm) || !aligned16(residual.x, residual.branch, residual.bias)) {
        cuda::residual_forward(stream, residual);
        cuda::layernorm_forward(stream, norm);
        return;
    }
    run_held(stream, norm, JoinedRows<T>{residual, Mask(residual)}, "residual_norm_forward");
}

template void layernorm_forward(Stream, const ops::LayerNormForward<float>&);
template void layernorm_forward(Stream, const ops::LayerNormForward<double>&);
template void layernorm_forward(Stream, const ops::LayerNormForward<Bf16>&);
template void layernorm_forward(Stream, const ops::LayerNormForward<Fp16>&);
template void residual_norm_forward(Stream, const ops::ResidualNormForward<float>&);
template void residual_norm_forward(Stream, const ops::ResidualNormForward<double>&);
template void residual_norm_forward(Stream, const ops::ResidualNormForward<Bf16>&);
template void residual_norm_forward(Stream, const ops::ResidualNormForward<Fp16>&);

}  // namespace ogrom::cuda
