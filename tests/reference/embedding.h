// Reference of the embedding: plain loops in double.
#pragma once
#include <cstdint>
#include <vector>

#include "tests/reference/dropout.h"

namespace ogrom::reference {

struct Embedding {
    i64 B, T, C;
    const std::int32_t* tokens;
    const std::int32_t* positions;
    const i64* sample;
    ops::DropoutSpec dropout;
    i64 position0 = 0;
    i64 T_total = 0;
};

// position_table may be empty.
inline std::vector<double> embedding_forward(const Embedding& e, const std::vector<double>& token_table,
                                             const std::vector<double>& position_table) {
    std::vector<double> y(static_cast<std::size_t>(e.B * e.T * e.C));
    for (i64 r = 0; r < e.B * e.T; ++r) {
        for (i64 c = 0; c < e.C; ++c) {
            double sum = token_table[e.tokens[r] * e.C + c];
            if (!position_table.empty()) {
                sum += position_table[e.positions[r] * e.C + c];
            }
            y[r * e.C + c] = sum * dropout_factor(e.dropout, element_of(e, r, c));
        }
    }
    return y;
}

// dropout(y + position_table[positions])
inline std::vector<double> position_forward(const Embedding& e, std::vector<double> y,
                                            const std::vector<double>& position_table) {
    for (i64 r = 0; r < e.B * e.T; ++r) {
        for (i64 c = 0; c < e.C; ++c) {
            y[r * e.C + c] = (y[r * e.C + c] + position_table[e.positions[r] * e.C + c]) *
                             dropout_factor(e.dropout, element_of(e, r, c));
        }
    }
    return y;
}

// table[index[r], :] += dropout'(d_y[r, :])
inline void embedding_backward(const Embedding& e, const std::int32_t* index, const std::vector<double>& d_y,
                               std::vector<double>& table) {
    for (i64 r = 0; r < e.B * e.T; ++r) {
        for (i64 c = 0; c < e.C; ++c) {
            table[index[r] * e.C + c] += d_y[r * e.C + c] * dropout_factor(e.dropout, element_of(e, r, c));
        }
    }
}

}  // namespace ogrom::reference
