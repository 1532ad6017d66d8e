#include "kernels/ops/embedding.h"

#include <algorithm>

#include "kernels/common/fault.h"
#include "kernels/common/parallel.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cuda/ops.h"

namespace ogrom::ops {
namespace {

constexpr i64 tile = 512;         // elements of a mask held at a time
constexpr i64 column_grain = 16;  // columns: one cache line of fp32

// Row `token` of the vocabulary within this rank's table; null where the table does not hold it.
template <class Op, class Table>
Table* token_row(const Op& op, Table* table, i64 token) {
    const i64 row = token - (fault_active("vocabulary_first_row_lost") ? 0 : op.first_row);
    const bool held = op.rows == 0 || (row >= 0 && row < op.rows);
    return held ? table + row_offset(row, op.C) : nullptr;
}

template <class Op>
auto position_row(const Op& op, i64 row) {
    return op.position_table == nullptr ? nullptr : op.position_table + row_offset(op.positions[row], op.C);
}

// y = token + position over n columns; either may be null.
template <class T>
void add_rows(T* y, const T* token, const T* position, i64 n) {
    if (token == nullptr || position == nullptr) {
        const T* only = token == nullptr ? position : token;
        if (only == nullptr) {
            std::fill_n(y, n, T{0});
        } else if (only != y) {
            std::copy_n(only, n, y);
        }
        return;
    }
    for (i64 c = 0; c < n; ++c) {
        y[c] = token[c] + position[c];
    }
}

// y = dropout(token + position) for one row; token may be y.
template <class Op, class T>
void joined_row(const Op& op, i64 row, T* y, const T* token, const T* position) {
    if (op.dropout.p == 0) {
        add_rows(y, token, position, op.C);
        return;
    }
    const i64 element = cpu::dropout_row_element(op, row);
    T factors[tile];
    T sum[tile];
    for (i64 c0 = 0; c0 < op.C; c0 += tile) {
        const i64 n = std::min(tile, op.C - c0);
        cpu::dropout_factors(factors, op.dropout, element + c0, n);
        add_rows(sum, token == nullptr ? nullptr : token + c0, position == nullptr ? nullptr : position + c0, n);
        for (i64 c = 0; c < n; ++c) {
            y[c0 + c] = cpu::apply_dropout(sum[c], factors[c]);
        }
    }
}

// body(row) for each of B * T rows of width C.
template <class Op, class Body>
void for_each_row(const Op& op, const Body& body) {
    const i64 grain = std::max<i64>(1, parallel_grain / std::max<i64>(1, op.C));
    parallel_ranges(op.B * op.T_, grain, [&](i64 first, i64 last) {
        for (i64 row = first; row < last; ++row) {
            body(row);
        }
    });
}

template <class T>
void add_to(T* sum, const T* g, i64 n) {
    for (i64 c = 0; c < n; ++c) {
        sum[c] += g[c];
    }
}

// Columns [first, last) of every row, in ascending r: a thread owns columns of both tables, so each table element is
// summed in one order whatever the number of threads.
template <class T>
void backward_columns(const EmbeddingBackward<T>& op, i64 first, i64 last) {
    T factors[tile];
    T dropped[tile];
    for (i64 c0 = first; c0 < last; c0 += tile) {
        const i64 n = std::min(tile, last - c0);
        for (i64 row = 0; row < op.B * op.T_; ++row) {
            T* token = op.d_token_table == nullptr ? nullptr : token_row(op, op.d_token_table, op.tokens[row]);
            if (token == nullptr && op.d_position_table == nullptr) {
                continue;
            }
            const T* g = op.d_y + row_offset(row, op.C) + c0;
            if (op.dropout.p > 0) {
                const i64 element = cpu::dropout_row_element(op, row) + c0;
                cpu::dropout_factors(factors, op.dropout, element, n);
                for (i64 c = 0; c < n; ++c) {
                    dropped[c] = cpu::apply_dropout(g[c], factors[c]);
                }
                g = dropped;
            }
            if (token != nullptr) {
                add_to(token + c0, g, n);
            }
            if (op.d_position_table != nullptr) {
                add_to(op.d_position_table + row_offset(op.positions[row], op.C) + c0, g, n);
            }
        }
    }
}

}  // namespace

template <class T>
void embedding_forward(Stream stream, const EmbeddingForward<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::embedding_forward(stream, op);
        return;
    }
    for_each_row(op, [&](i64 row) {
        joined_row(op, row, op.y + row_offset(row, op.C), token_row(op, op.token_table, op.tokens[row]),
                   position_row(op, row));
    });
}

template <class T>
void position_forward(Stream stream, const PositionForward<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::position_forward(stream, op);
        return;
    }
    if (op.position_table == nullptr && op.dropout.p == 0) {
        return;
    }
    for_each_row(op, [&](i64 row) {
        T* y = op.y + row_offset(row, op.C);
        joined_row(op, row, y, static_cast<const T*>(y), position_row(op, row));
    });
}

template <class T>
void embedding_backward(Stream stream, const EmbeddingBackward<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::embedding_backward(stream, op);
        return;
    }
    const i64 rows = op.B * op.T_;
    OGROM_ASSERT(std::all_of(op.tokens, op.tokens + rows,
                             [&](std::int32_t token) { return token >= 0 && token < op.vocabulary; }));
    parallel_ranges(op.C, column_grain, [&](i64 first, i64 last) { backward_columns(op, first, last); });
}

template void embedding_forward<float>(Stream, const EmbeddingForward<float>&);
template void embedding_forward<double>(Stream, const EmbeddingForward<double>&);
template void position_forward<float>(Stream, const PositionForward<float>&);
template void position_forward<double>(Stream, const PositionForward<double>&);
template void embedding_backward<float>(Stream, const EmbeddingBackward<float>&);
template void embedding_backward<double>(Stream, const EmbeddingBackward<double>&);

}  // namespace ogrom::ops
