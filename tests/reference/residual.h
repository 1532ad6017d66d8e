// Reference of the residual joint: plain loops in double.
#pragma once
#include <vector>

#include "tests/reference/dropout.h"

namespace ogrom::reference {

struct Residual {
    i64 B, T, C;
    const i64* sample;
    ops::DropoutSpec dropout;
    i64 position0 = 0;
    i64 T_total = 0;
};

inline std::vector<double> residual_forward(const Residual& s, const std::vector<double>& x,
                                            const std::vector<double>& branch, const std::vector<double>& bias) {
    std::vector<double> y(x.size());
    for (i64 r = 0; r < s.B * s.T; ++r) {
        for (i64 c = 0; c < s.C; ++c) {
            const double value = branch[r * s.C + c] + (bias.empty() ? 0 : bias[c]);
            y[r * s.C + c] = x[r * s.C + c] + value * dropout_factor(s.dropout, element_of(s, r, c));
        }
    }
    return y;
}

inline std::vector<double> dropout_backward(const Residual& s, const std::vector<double>& d_y) {
    std::vector<double> d_branch(d_y.size());
    for (i64 r = 0; r < s.B * s.T; ++r) {
        for (i64 c = 0; c < s.C; ++c) {
            d_branch[r * s.C + c] = d_y[r * s.C + c] * dropout_factor(s.dropout, element_of(s, r, c));
        }
    }
    return d_branch;
}

}  // namespace ogrom::reference
