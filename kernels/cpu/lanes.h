// Row sums in double whose order is written down: element i goes to lane i mod 16 in ascending i, then the lanes are
// added pairwise. The same bits whatever the vector width of the machine; a compiler turns the lanes into vectors.
#pragma once
#include "kernels/common/extents.h"

namespace ogrom::cpu {

inline constexpr int sum_lanes = 16;

inline double add_lanes(double (&lane)[sum_lanes]) {
    for (int width = sum_lanes / 2; width > 0; width /= 2) {
        for (int l = 0; l < width; ++l) {
            lane[l] += lane[l + width];
        }
    }
    return lane[0];
}

// sum of term(i) over i in [0, n); term returns a double.
template <class Term>
inline double lane_sum(i64 n, const Term& term) {
    double lane[sum_lanes] = {};
    i64 i = 0;
    for (; i + sum_lanes <= n; i += sum_lanes) {
        for (int l = 0; l < sum_lanes; ++l) {
            lane[l] += term(i + l);
        }
    }
    for (int l = 0; i + l < n; ++l) {
        lane[l] += term(i + l);
    }
    return add_lanes(lane);
}

// Two sums at once: term(i, a, b) adds to a and b.
struct SumPair {
    double first, second;
};
template <class Term>
inline SumPair lane_sums(i64 n, const Term& term) {
    double first[sum_lanes] = {};
    double second[sum_lanes] = {};
    i64 i = 0;
    for (; i + sum_lanes <= n; i += sum_lanes) {
        for (int l = 0; l < sum_lanes; ++l) {
            term(i + l, first[l], second[l]);
        }
    }
    for (int l = 0; i + l < n; ++l) {
        term(i + l, first[l], second[l]);
    }
    return {add_lanes(first), add_lanes(second)};
}

}  // namespace ogrom::cpu
