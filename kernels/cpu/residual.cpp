#include "kernels/ops/residual.h"

#include <algorithm>

#include "kernels/common/parallel.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cuda/ops.h"

namespace ogrom::ops {
namespace {

constexpr i64 tile = 512;  // elements of a mask held at a time

i64 rows_grain(i64 cols) {
    return std::max<i64>(1, parallel_grain / std::max<i64>(1, cols));
}

// y[c] = x[c] + dropout(branch[c] + bias[c]) for one row; bias may be null.
template <class T>
void residual_row(const ResidualForward<T>& op, i64 row) {
    const i64 start = row * op.C;
    const bool drops = op.dropout.p > 0;
    const i64 element = drops ? cpu::dropout_row_element(op, row) : 0;
    T factors[tile];
    for (i64 c0 = 0; c0 < op.C; c0 += tile) {
        const i64 n = std::min(tile, op.C - c0);
        T* y = op.y + start + c0;
        const T* x = op.x + start + c0;
        const T* branch = op.branch + start + c0;
        const T* bias = op.bias == nullptr ? nullptr : op.bias + c0;
        if (drops) {
            cpu::dropout_factors(factors, op.dropout, element + c0, n);
            if (bias != nullptr) {
                for (i64 c = 0; c < n; ++c) {
                    y[c] = x[c] + cpu::apply_dropout(branch[c] + bias[c], factors[c]);
                }
            } else {
                for (i64 c = 0; c < n; ++c) {
                    y[c] = x[c] + cpu::apply_dropout(branch[c], factors[c]);
                }
            }
        } else if (bias != nullptr) {
            for (i64 c = 0; c < n; ++c) {
                y[c] = x[c] + (branch[c] + bias[c]);
            }
        } else {
            for (i64 c = 0; c < n; ++c) {
                y[c] = x[c] + branch[c];
            }
        }
    }
}

}  // namespace

template <class T>
void add_bias(Stream stream, const AddBias<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::add_bias(stream, op);
        return;
    }
    if (op.bias == nullptr) {
        return;
    }
    parallel_ranges(op.rows, rows_grain(op.cols), [&](i64 first, i64 last) {
        for (i64 row = first; row < last; ++row) {
            T* y = op.y + row_offset(row, op.ldy);
            for (i64 c = 0; c < op.cols; ++c) {
                y[c] += op.bias[c];
            }
        }
    });
}

template <class T>
void residual_forward(Stream stream, const ResidualForward<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::residual_forward(stream, op);
        return;
    }
    parallel_ranges(op.B * op.T_, rows_grain(op.C), [&](i64 first, i64 last) {
        for (i64 row = first; row < last; ++row) {
            residual_row(op, row);
        }
    });
}

template <class T>
void dropout_backward(Stream stream, const DropoutBackward<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::dropout_backward(stream, op);
        return;
    }
    const bool drops = op.dropout.p > 0;
    if (!drops && op.d_branch == op.d_y) {
        return;
    }
    parallel_ranges(op.B * op.T_, rows_grain(op.C), [&](i64 first, i64 last) {
        T factors[tile];
        for (i64 row = first; row < last; ++row) {
            const T* d_y = op.d_y + row * op.C;
            T* d_branch = op.d_branch + row * op.C;
            if (!drops) {
                std::copy_n(d_y, op.C, d_branch);
                continue;
            }
            const i64 element = cpu::dropout_row_element(op, row);
            for (i64 c0 = 0; c0 < op.C; c0 += tile) {
                const i64 n = std::min(tile, op.C - c0);
                cpu::dropout_factors(factors, op.dropout, element + c0, n);
                for (i64 c = 0; c < n; ++c) {
                    d_branch[c0 + c] = cpu::apply_dropout(d_y[c0 + c], factors[c]);
                }
            }
        }
    });
}

template void add_bias<float>(Stream, const AddBias<float>&);
template void add_bias<double>(Stream, const AddBias<double>&);
template void residual_forward<float>(Stream, const ResidualForward<float>&);
template void residual_forward<double>(Stream, const ResidualForward<double>&);
template void dropout_backward<float>(Stream, const DropoutBackward<float>&);
template void dropout_backward<double>(Stream, const DropoutBackward<double>&);

}  // namespace ogrom::ops
