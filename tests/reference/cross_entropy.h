// Reference of softmax cross-entropy: plain loops in double.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom::reference {

struct CrossEntropy {
    double loss_sum = 0;
    std::vector<double> gradient;  // [rows, padded]; padding columns and masked rows 0
};

// logits [rows, padded]; mask may be empty.
inline CrossEntropy cross_entropy(const std::vector<double>& logits, const std::vector<std::int32_t>& targets,
                                  const std::vector<std::uint8_t>& mask, i64 vocabulary, i64 padded, double scale) {
    CrossEntropy out;
    out.gradient.assign(logits.size(), 0.0);
    for (std::size_t r = 0; r < targets.size(); ++r) {
        if (!mask.empty() && mask[r] == 0) {
            continue;
        }
        const double* z = logits.data() + static_cast<i64>(r) * padded;
        double* gradient = out.gradient.data() + static_cast<i64>(r) * padded;
        const double top = *std::max_element(z, z + vocabulary);
        double sum = 0;
        for (i64 v = 0; v < vocabulary; ++v) {
            sum += std::exp(z[v] - top);
        }
        out.loss_sum += std::log(sum) + top - z[targets[r]];
        for (i64 v = 0; v < vocabulary; ++v) {
            gradient[v] = scale * (std::exp(z[v] - top) / sum - (v == targets[r] ? 1.0 : 0.0));
        }
    }
    return out;
}

}  // namespace ogrom::reference
