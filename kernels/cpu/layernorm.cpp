#include "kernels/ops/layernorm.h"

#include <algorithm>
#include <cmath>

#include "kernels/common/fault.h"
#include "kernels/common/parallel.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cuda/ops.h"

namespace ogrom::ops {
namespace {

// Rows are cut into at most 64 blocks of at least 32 rows: a function of the shape only, so that sums over rows are
// the same for any number of threads and the partial sums stay small (64 x 2 C doubles).
constexpr i64 most_blocks = 64;
constexpr i64 fewest_rows = 32;

i64 block_rows(i64 rows) {
    return std::max(fewest_rows, ceil_div(rows, most_blocks));
}

template <class T>
void forward_row(const LayerNormForward<T>& op, i64 row) {
    const T* x = op.x + row_offset(row, op.C);
    T* y = op.y + row_offset(row, op.C);
    const auto width = static_cast<double>(op.C);
    const double mean = cpu::lane_sum(op.C, [&](i64 c) { return static_cast<double>(x[c]); }) / width;
    const double variance = cpu::lane_sum(op.C,
                                          [&](i64 c) {
                                              const double d = static_cast<double>(x[c]) - mean;
                                              return d * d;
                                          }) /
                            width;
    const double rstd = 1.0 / std::sqrt(variance + op.epsilon);
    if (op.mean != nullptr) {
        op.mean[row] = static_cast<T>(mean);
    }
    if (op.rstd != nullptr) {
        op.rstd[row] = static_cast<T>(rstd);
    }
    const T m = static_cast<T>(mean);
    const T s = static_cast<T>(rstd);
    if (op.beta != nullptr) {
        for (i64 c = 0; c < op.C; ++c) {
            y[c] = (x[c] - m) * s * op.gamma[c] + op.beta[c];
        }
    } else {
        for (i64 c = 0; c < op.C; ++c) {
            y[c] = (x[c] - m) * s * op.gamma[c];
        }
    }
}

// d_gamma[c] += dy xh, d_beta[c] += dy for one row, into this block's sums.
template <class T>
void parameter_row(const LayerNormBackward<T>& op, i64 row, double* d_gamma, double* d_beta) {
    const T* x = op.x + row_offset(row, op.C);
    const T* d_y = op.d_y + row_offset(row, op.C);
    const T mean = op.mean[row];
    const T rstd = op.rstd[row];
    for (i64 c = 0; c < op.C; ++c) {
        d_gamma[c] += static_cast<double>(d_y[c] * ((x[c] - mean) * rstd));
        d_beta[c] += static_cast<double>(d_y[c]);
    }
}

template <class T>
void data_row(const LayerNormBackward<T>& op, i64 row) {
    const T* x = op.x + row_offset(row, op.C);
    const T* d_y = op.d_y + row_offset(row, op.C);
    T* d_x = op.d_x + row_offset(row, op.C);
    const T mean = op.mean[row];
    const T rstd = op.rstd[row];
    const auto width = static_cast<double>(op.C);
    const cpu::SumPair sums = cpu::lane_sums(op.C, [&](i64 c, double& of_g, double& of_gx) {
        const T g = d_y[c] * op.gamma[c];
        of_g += static_cast<double>(g);
        of_gx += static_cast<double>(g * ((x[c] - mean) * rstd));
    });
    const T mean_g = static_cast<T>(sums.first / width);
    const T mean_gx = static_cast<T>(sums.second / width);
    if (op.mode == Accumulate::add) {
        for (i64 c = 0; c < op.C; ++c) {
            d_x[c] += rstd * (d_y[c] * op.gamma[c] - mean_g - (x[c] - mean) * rstd * mean_gx);
        }
    } else {
        for (i64 c = 0; c < op.C; ++c) {
            d_x[c] = rstd * (d_y[c] * op.gamma[c] - mean_g - (x[c] - mean) * rstd * mean_gx);
        }
    }
}

// Adds the blocks' sums to the gradients in ascending order of blocks.
template <class T>
void add_blocks(T* gradient, const double* partial, i64 blocks, i64 stride, i64 C) {
    parallel_ranges(C, 256, [&](i64 first, i64 last) {
        for (i64 c = first; c < last; ++c) {
            double sum = 0;
            for (i64 block = 0; block < blocks; ++block) {
                sum += partial[block * stride + c];
            }
            gradient[c] += static_cast<T>(sum);
        }
    });
}

}  // namespace

template <class T>
void layernorm_forward(Stream stream, const LayerNormForward<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::layernorm_forward(stream, op);
        return;
    }
    const i64 grain = std::max<i64>(1, parallel_grain / std::max<i64>(1, op.C));
    parallel_ranges(op.rows, grain, [&](i64 first, i64 last) {
        for (i64 row = first; row < last; ++row) {
            forward_row(op, row);
        }
    });
}

template <class T>
void layernorm_backward(Stream stream, const LayerNormBackward<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::layernorm_backward(stream, op);
        return;
    }
    const bool parameters = op.d_gamma != nullptr || op.d_beta != nullptr;
    const i64 per_block = block_rows(op.rows);
    const i64 blocks = ceil_div(op.rows, per_block);
    const i64 stride = 2 * op.C;
    const std::span<double> partial = cpu::scratch(parameters ? blocks * stride : 0);
    parallel_pieces(blocks, [&](i64 block) {
        double* sums = parameters ? partial.data() + block * stride : nullptr;
        if (parameters) {
            std::fill_n(sums, stride, 0.0);
        }
        for (i64 row = block * per_block; row < std::min(op.rows, (block + 1) * per_block); ++row) {
            // Before d_x is written, as d_x may take the place of d_y.
            if (parameters) {
                parameter_row(op, row, sums, sums + op.C);
            }
            if (op.d_x != nullptr) {
                data_row(op, row);
            }
        }
    });
    const i64 kept = fault_active("layernorm_gamma_gradient_lost") ? blocks - 1 : blocks;
    if (op.d_gamma != nullptr) {
        add_blocks(op.d_gamma, partial.data(), kept, stride, op.C);
    }
    if (op.d_beta != nullptr) {
        add_blocks(op.d_beta, partial.data() + op.C, blocks, stride, op.C);
    }
}

template void layernorm_forward<float>(Stream, const LayerNormForward<float>&);
template void layernorm_forward<double>(Stream, const LayerNormForward<double>&);
template void layernorm_backward<float>(Stream, const LayerNormBackward<float>&);
template void layernorm_backward<double>(Stream, const LayerNormBackward<double>&);

}  // namespace ogrom::ops
