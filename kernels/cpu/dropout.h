// Dropout masks of the CPU kernels, drawn by global element index (kernels/ops/dropout.h).
#pragma once
#include "kernels/common/extents.h"
#include "kernels/common/fault.h"
#include "kernels/common/rng.h"
#include "kernels/ops/dropout.h"

namespace ogrom::cpu {

// words[i] = random_word(seed, site, step, first + i), i in [0, n); any first >= 0.
void dropout_words(u32* words, const ops::DropoutSpec& spec, i64 first, i64 n);

// factors[i] = 1 / (1 - p) where element first + i is kept, else 0.
template <class T>
void dropout_factors(T* factors, const ops::DropoutSpec& spec, i64 first, i64 n);

// Global element of (r, column 0) for rows [B * T] of width C that hold positions [position0, position0 + T) of T_total
// (0 = T): (sample[r / T] * T_total + position0 + r mod T) * C.
inline i64 dropout_row_element(const i64* sample, i64 row, i64 T_, i64 C, i64 position0 = 0, i64 T_total = 0) {
    i64 sequence = sample[row / T_];
    if (fault_active("dropout_offset")) {
        sequence += 1;
    }
    if (fault_active("dropout_position_lost")) {
        position0 = 0;
    }
    return (sequence * (T_total > 0 ? T_total : T_) + position0 + row % T_) * C;
}

// The same for an operation with these fields.
template <class Op>
i64 dropout_row_element(const Op& op, i64 row) {
    return dropout_row_element(op.sample, row, op.T_, op.C, op.position0, op.T_total);
}

// A dropped element is exactly 0, whatever it was.
template <class T>
T apply_dropout(T value, T factor) {
    return factor != T{0} ? value * factor : T{0};
}

}  // namespace ogrom::cpu
