// Reference of layer normalisation: plain loops in double, sums over a row in extended precision.
#pragma once
#include <cmath>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom::reference {

struct LayerNorm {
    std::vector<double> y, mean, rstd;
};

inline LayerNorm layernorm_forward(const std::vector<double>& x, const std::vector<double>& gamma,
                                   const std::vector<double>& beta, i64 rows, i64 C, double epsilon) {
    LayerNorm out{std::vector<double>(x.size()), std::vector<double>(rows), std::vector<double>(rows)};
    for (i64 r = 0; r < rows; ++r) {
        long double sum = 0;
        for (i64 c = 0; c < C; ++c) {
            sum += x[r * C + c];
        }
        const long double mean = sum / static_cast<long double>(C);
        long double squares = 0;
        for (i64 c = 0; c < C; ++c) {
            squares += (x[r * C + c] - mean) * (x[r * C + c] - mean);
        }
        out.mean[r] = static_cast<double>(mean);
        out.rstd[r] = static_cast<double>(1 / std::sqrt(squares / static_cast<long double>(C) + epsilon));
        for (i64 c = 0; c < C; ++c) {
            out.y[r * C + c] =
                static_cast<double>(x[r * C + c] - mean) * out.rstd[r] * gamma[c] + (beta.empty() ? 0 : beta[c]);
        }
    }
    return out;
}

struct LayerNormGradients {
    std::vector<double> d_x, d_gamma, d_beta;
};

inline LayerNormGradients layernorm_backward(const std::vector<double>& d_y, const std::vector<double>& x,
                                             const std::vector<double>& gamma, i64 rows, i64 C, double epsilon) {
    const LayerNorm forward = layernorm_forward(x, gamma, {}, rows, C, epsilon);
    LayerNormGradients out{std::vector<double>(x.size()), std::vector<double>(C), std::vector<double>(C)};
    for (i64 r = 0; r < rows; ++r) {
        long double sum_g = 0;
        long double sum_gx = 0;
        for (i64 c = 0; c < C; ++c) {
            const double xh = (x[r * C + c] - forward.mean[r]) * forward.rstd[r];
            const double g = d_y[r * C + c] * gamma[c];
            sum_g += g;
            sum_gx += g * xh;
            out.d_gamma[c] += d_y[r * C + c] * xh;
            out.d_beta[c] += d_y[r * C + c];
        }
        const auto mean_g = static_cast<double>(sum_g / static_cast<long double>(C));
        const auto mean_gx = static_cast<double>(sum_gx / static_cast<long double>(C));
        for (i64 c = 0; c < C; ++c) {
            const double xh = (x[r * C + c] - forward.mean[r]) * forward.rstd[r];
            out.d_x[r * C + c] = forward.rstd[r] * (d_y[r * C + c] * gamma[c] - mean_g - xh * mean_gx);
        }
    }
    return out;
}

}  // namespace ogrom::reference
