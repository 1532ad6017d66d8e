// Token plus learned position embedding with dropout.
//   forward   y[r,:] = dropout(token_table[tokens[r],:] + position_table[positions[r],:])      2 C flops a row
//   backward  d_token_table[tokens[r],:] += g[r,:], d_position_table[positions[r],:] += g[r,:], g = dropout'(d_y)
//             (each table row summed in ascending r: repeatable for any number of threads)
// Global dropout element of (r, c): (sample[r / T] * T + r mod T) * C + c with sample = the global sample index in the
// batch.
#pragma once
#include <cstdint>

#include "kernels/common/extents.h"
#include "kernels/common/stream.h"
#include "kernels/ops/dropout.h"

namespace ogrom::ops {

template <class T>
struct EmbeddingForward {
    T* y;                           // [B*T, C]
    const T* token_table;           // [padded vocabulary, C]
    const T* position_table;        // [sequence, C], or null (no learned positions)
    const std::int32_t* tokens;     // [B*T], 0 <= id < vocabulary (checked on the host before)
    const std::int32_t* positions;  // [B*T]
    i64 B, T_, C;
    const i64* sample;  // [B] global sample index within the step's batch (dropout); may be null when p = 0
    DropoutSpec dropout;
};
template <class T>
void embedding_forward(Stream stream, const EmbeddingForward<T>& op);

template <class T>
struct EmbeddingBackward {
    T* d_token_table;     // added to; may be null (frozen)
    T* d_position_table;  // added to; may be null
    const T* d_y;         // [B*T, C]
    const std::int32_t* tokens;
    const std::int32_t* positions;
    i64 B, T_, C;
    i64 vocabulary;  // rows of the table that may receive gradient
    const i64* sample;
    DropoutSpec dropout;
};
template <class T>
void embedding_backward(Stream stream, const EmbeddingBackward<T>& op);

}  // namespace ogrom::ops
