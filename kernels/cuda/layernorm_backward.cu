// layernorm_backward of kernels/ops/layernorm.h. Where rows are held in registers, a fixed number of blocks go over the
// rows once and keep their share of d_gamma and d_beta in registers: x and d_y are read once for all three gradients.
#include "kernels/cuda/layernorm.cuh"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

constexpr i64 most_blocks = 264;  // part of the order of the sums, so a constant: two for each processor of an H200

// One row's gradients by the threads that hold it: d_x from the row's sums; the parameters' terms into their sums.
template <class T, int W>
struct HeldRow {
    static constexpr int V = wide<T>;
    static constexpr int P = lane_packs<T>;
    Values<T, V> xh[P], d_y[P];
    Pack<T, V> before[P];  // of d_x where it is added to, on its way while the sums are made
    Math<T> mean_g = 0, mean_gx = 0;

    __device__ static i64 column(int p, int lane) { return static_cast<i64>(p * 32 * W + lane) * V; }

    __device__ void read(const ops::LayerNormBackward<T>& op, i64 row, int lane, bool here) {
        const Math<T> mean = here ? op.mean[row] : Math<T>(0);
        const Math<T> rstd = here ? op.rstd[row] : Math<T>(0);
#pragma unroll
        for (int p = 0; p < P; ++p) {
            const i64 c = column(p, lane);
            const bool inside = here && c < op.C;
            d_y[p] = inside ? load<V>(op.d_y + row * op.C + c) : Values<T, V>{};
            xh[p] = inside ? load<V>(op.x + row * op.C + c) : Values<T, V>{};
            if (inside && op.d_x != nullptr && op.mode == ops::Accumulate::add) {
                before[p] = load_packed<V>(op.d_x + row * op.C + c);
            }
        }
#pragma unroll
        for (int p = 0; p < P; ++p) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                xh[p].at[v] = (xh[p].at[v] - mean) * rstd;
            }
        }
    }

    // Columns outside the row have d_y = 0 and add nothing.
    __device__ void sum(const ops::LayerNormBackward<T>& op, int lane, Math<T> (&slots)[2][W * rows_at_a_time<W>]) {
        Math<T> of_g = 0, of_gx = 0;
#pragma unroll
        for (int p = 0; p < P; ++p) {
            const i64 c = column(p, lane);
            const Values<T, V> gamma = c < op.C ? load<V>(op.gamma + c) : Values<T, V>{};
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const Math<T> g = d_y[p].at[v] * gamma.at[v];
                of_g += g;
                of_gx += g * xh[p].at[v];
            }
        }
        mean_g = group_sum<W>(of_g, slots[0]) / static_cast<Math<T>>(op.C);
        mean_gx = group_sum<W>(of_gx, slots[1]) / static_cast<Math<T>>(op.C);
    }

    __device__ void write(const ops::LayerNormBackward<T>& op, i64 row, int lane) const {
        const Math<T> rstd = op.rstd[row];
#pragma unroll
        for (int p = 0; p < P; ++p) {
            const i64 c = column(p, lane);
            if (c < op.C) {
                T* d_x = op.d_x + row * op.C + c;
                const Values<T, V> gamma = load<V>(op.gamma + c);
                Values<T, V> d = op.mode == ops::Accumulate::add ? unpacked<T, V>(before[p]) : Values<T, V>{};
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    d.at[v] += rstd * (d_y[p].at[v] * gamma.at[v] - mean_g - xh[p].at[v] * mean_gx);
                }
                store<V>(d_x, d);
            }
        }
    }
};

// The rows of a block that stand side by side are added in ascending order, then stored.
template <class T, int W>
__device__ void store_sums(Math<T>* partial, i64 C, int lane, const Values<T, wide<T>> (&sums)[lane_packs<T>]) {
    constexpr int V = wide<T>;
    constexpr int P = lane_packs<T>;
    constexpr int R = rows_at_a_time<W>;
    if constexpr (R == 1) {
#pragma unroll
        for (int p = 0; p < P; ++p) {
            const i64 c = HeldRow<T, W>::column(p, lane);
            if (c < C) {
                store<V>(partial + c, sums[p]);
            }
        }
    } else {
        __shared__ Pack<Math<T>, V> joined[P * 32 * W];
        const int in_block = static_cast<int>(threadIdx.x) / (32 * W);
        for (int r = 0; r < R; ++r) {
#pragma unroll
            for (int p = 0; p < P && in_block == r; ++p) {
                const i64 c = HeldRow<T, W>::column(p, lane);
                Math<T>* slot = joined[p * 32 * W + lane].at;
                const auto before = r > 0 ? load<V>(slot) : Values<Math<T>, V>{};
                Values<T, V> total;
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    total.at[v] = before.at[v] + sums[p].at[v];
                }
                if (r + 1 < R) {
                    store<V>(slot, total);
                } else if (c < C) {
                    store<V>(partial + c, total);
                }
            }
            __syncthreads();
        }
    }
}

template <class T, int W, NormParts Parts>
__global__ void __launch_bounds__(row_threads<W>) backward_held(ops::LayerNormBackward<T> op, Math<T>* partial) {
    constexpr int V = wide<T>;
    constexpr int P = lane_packs<T>;
    constexpr int R = rows_at_a_time<W>;
    __shared__ Math<T> slots[2][W * R];
    const int lane = static_cast<int>(threadIdx.x) % (32 * W);
    Values<T, V> d_gamma[P] = {}, d_beta[P] = {};
    for (i64 base = static_cast<i64>(blockIdx.x) * R; base < op.rows; base += static_cast<i64>(gridDim.x) * R) {
        const i64 row = base + threadIdx.x / (32 * W);
        const bool here = row < op.rows;
        HeldRow<T, W> held;
        held.read(op, row, lane, here);
        if constexpr (Parts != NormParts::data) {
#pragma unroll
            for (int p = 0; p < P; ++p) {
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    d_gamma[p].at[v] += held.d_y[p].at[v] * held.xh[p].at[v];
                    d_beta[p].at[v] += held.d_y[p].at[v];
                }
            }
        }
        if constexpr (Parts != NormParts::parameters) {
            held.sum(op, lane, slots);
            if (here) {
                held.write(op, row, lane);
            }
        }
    }
    if constexpr (Parts != NormParts::data) {
        Math<T>* mine = partial + static_cast<i64>(blockIdx.x) * 2 * op.C;
        store_sums<T, W>(mine, op.C, lane, d_gamma);
        store_sums<T, W>(mine + op.C, op.C, lane, d_beta);
    }
}

constexpr int passing_warps = 8;

template <class T>
__global__ void __launch_bounds__(32 * passing_warps) data_passing(ops::LayerNormBackward<T> op) {
    __shared__ Math<T> slots[2][passing_warps];
    for (i64 row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const T* x = op.x + row * op.C;
        const T* d_y = op.d_y + row * op.C;
        T* d_x = op.d_x + row * op.C;
        const Math<T> mean = op.mean[row];
        const Math<T> rstd = op.rstd[row];
        Math<T> of_g = 0, of_gx = 0;
        for (i64 c = threadIdx.x; c < op.C; c += blockDim.x) {
            const Math<T> g = static_cast<Math<T>>(d_y[c]) * static_cast<Math<T>>(op.gamma[c]);
            of_g += g;
            of_gx += g * ((static_cast<Math<T>>(x[c]) - mean) * rstd);
        }
        const Math<T> mean_g = group_sum<passing_warps>(of_g, slots[0]) / static_cast<Math<T>>(op.C);
        const Math<T> mean_gx = group_sum<passing_warps>(of_gx, slots[1]) / static_cast<Math<T>>(op.C);
        for (i64 c = threadIdx.x; c < op.C; c += blockDim.x) {
            const Math<T> before = op.mode == ops::Accumulate::add ? static_cast<Math<T>>(d_x[c]) : Math<T>(0);
            const Math<T> g = static_cast<Math<T>>(d_y[c]) * static_cast<Math<T>>(op.gamma[c]);
            const Math<T> xh = (static_cast<Math<T>>(x[c]) - mean) * rstd;
            d_x[c] = static_cast<T>(before + rstd * (g - mean_g - xh * mean_gx));
        }
    }
}

template <class T>
struct ParameterTerm {
    const T* x;
    const T* d_y;
    const Math<T>* mean;
    const Math<T>* rstd;
    i64 C;

    __device__ void operator()(i64 row, i64 column, Values<Math<T>, 1> (&sums)[2]) const {
        const i64 i = row * C + column;
        const auto d = static_cast<Math<T>>(d_y[i]);
        sums[0].at[0] += d * ((static_cast<Math<T>>(x[i]) - mean[row]) * rstd[row]);
        sums[1].at[0] += d;
    }
};

template <class T>
void add_parameters(Stream stream, const ops::LayerNormBackward<T>& op, const Math<T>* partial, i64 parts) {
    add_splits(stream, Gradients<GradientOf<T>, 2>{{op.d_gamma, op.d_beta}}, partial, parts, op.C,
               "layernorm_backward");
}

template <class T>
void backward_passing(Stream stream, const ops::LayerNormBackward<T>& op) {
    // First the parameters, as d_x may take the place of d_y.
    if (op.d_gamma != nullptr || op.d_beta != nullptr) {
        const RowSplits splits = row_splits(op.rows, op.C, 1);
        auto* partial =
            static_cast<Math<T>*>(scratch(stream, splits.count * 2 * op.C * static_cast<i64>(sizeof(Math<T>))));
        make_splits<1, 2>(stream, partial, op.rows, op.C, splits,
                          ParameterTerm<T>{op.x, op.d_y, op.mean, op.rstd, op.C}, "layernorm_backward");
        add_parameters(stream, op, partial, splits.count);
    }
    if (op.d_x != nullptr) {
        data_passing<<<grid_of(op.rows), 32 * passing_warps, 0, native(stream)>>>(op);
        check_launch("layernorm_backward");
    }
}

template <class T, int W>
void run_held(Stream stream, const ops::LayerNormBackward<T>& op) {
    const i64 row_blocks = ceil_div(op.rows, rows_at_a_time<W>);
    const unsigned threads = row_threads<W>;
    if (op.d_gamma == nullptr && op.d_beta == nullptr) {
        backward_held<T, W, NormParts::data><<<grid_of(row_blocks), threads, 0, native(stream)>>>(op, nullptr);
        check_launch("layernorm_backward");
        return;
    }
    const i64 blocks = std::min(most_blocks, row_blocks);
    auto* partial = static_cast<Math<T>*>(scratch(stream, blocks * 2 * op.C * static_cast<i64>(sizeof(Math<T>))));
    if (op.d_x == nullptr) {
        backward_held<T, W, NormParts::parameters><<<grid_of(blocks), threads, 0, native(stream)>>>(op, partial);
    } else {
        backward_held<T, W, NormParts::both><<<grid_of(blocks), threads, 0, native(stream)>>>(op, partial);
    }
    check_launch("layernorm_backward");
    add_parameters(stream, op, partial, blocks);
}

}  // namespace

template <class T>
void layernorm_backward(Stream stream, const ops::LayerNormBackward<T>& op) {
    if (op.rows == 0 || op.C == 0) {
        return;
    }
    const bool held = op.C <= held_columns<T> && op.C % wide<T> == 0 && aligned16(op.d_x, op.d_y, op.x, op.gamma);
    if (!held) {
        backward_passing(stream, op);
        return;
    }
    with_warps<T>(op.C, [&](auto warps) { run_held<T, decltype(warps)::value>(stream, op); });
}

template void layernorm_backward(Stream, const ops::LayerNormBackward<float>&);
template void layernorm_backward(Stream, const ops::LayerNormBackward<double>&);
template void layernorm_backward(Stream, const ops::LayerNormBackward<Bf16>&);
template void layernorm_backward(Stream, const ops::LayerNormBackward<Fp16>&);

}  // namespace ogrom::cuda
