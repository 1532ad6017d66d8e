// Token plus learned position embedding with dropout.
//   forward   y[r,:] = dropout(token_table[tokens[r],:] + position_table[positions[r],:])      2 C flops a row
//   backward  d_token_table[tokens[r],:] += g[r,:], d_position_table[positions[r],:] += g[r,:], g = dropout'(d_y)
//             (each table row summed in ascending r: repeatable for any number of threads)
//   position_forward   y[r,:] = dropout(y[r,:] + position_table[positions[r],:])               2 C flops a row
// Vocabulary-parallel: a rank's token table holds rows [first_row, first_row + rows) of the vocabulary; a token outside
// gives 0 forward and its gradient goes nowhere. Each rank calls embedding_forward without positions and dropout; the
// sum over the ranks (one of them holds the row, the others add 0) equals the whole table's row, and position_forward
// makes of it the bits of the uncut call.
// Sequence-parallel: rows hold positions [position0, position0 + T) of sequences of T_total. Global dropout element of
// (r, c): (sample[r / T] * T_total + position0 + r mod T) * C + c with sample = the global sample index in the batch.
#pragma once
#include <cstdint>

#include "kernels/common/dtype.h"
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"
#include "kernels/ops/dropout.h"

namespace ogrom::ops {

template <class T>
struct EmbeddingForward {
    T* y;                           // [B*T, C]
    const T* token_table;           // [padded vocabulary, C], or this rank's [rows, C]
    const T* position_table;        // [sequence, C], or null (no learned positions)
    const std::int32_t* tokens;     // [B*T], 0 <= id < vocabulary (checked on the host before)
    const std::int32_t* positions;  // [B*T]
    i64 B, T_, C;
    const i64* sample;  // [B] global sample index within the step's batch (dropout); may be null when p = 0
    DropoutSpec dropout;
    i64 position0 = 0;
    i64 T_total = 0;    // 0 = T_
    i64 first_row = 0;  // vocabulary row that is row 0 of token_table
    i64 rows = 0;       // rows of token_table; 0 = it holds every token
};
template <class T>
void embedding_forward(Stream stream, const EmbeddingForward<T>& op);

template <class T>
struct EmbeddingBackward {
    GradientOf<T>* d_token_table;     // added to; may be null (frozen)
    GradientOf<T>* d_position_table;  // added to; may be null
    const T* d_y;                     // [B*T, C]
    const std::int32_t* tokens;
    const std::int32_t* positions;  // read only where d_position_table is given
    i64 B, T_, C;
    i64 vocabulary;  // rows of the whole table that may receive gradient, over all ranks
    const i64* sample;
    DropoutSpec dropout;
    i64 position0 = 0;
    i64 T_total = 0;    // 0 = T_
    i64 first_row = 0;  // as forward
    i64 rows = 0;
};
template <class T>
void embedding_backward(Stream stream, const EmbeddingBackward<T>& op);

template <class T>
struct PositionForward {
    T* y;                           // [B*T, C] in and out: the summed token rows
    const T* position_table;        // [sequence, C]; null: dropout alone
    const std::int32_t* positions;  // [B*T]
    i64 B, T_, C;
    const i64* sample;  // [B]; may be null when p = 0
    DropoutSpec dropout;
    i64 position0 = 0;
    i64 T_total = 0;  // 0 = T_
};
template <class T>
void position_forward(Stream stream, const PositionForward<T>& op);

}  // namespace ogrom::ops
