// Reference of the dropout factor: 1 / (1 - p) where the global element is kept, 0 where it is dropped.
#pragma once
#include "kernels/common/rng.h"
#include "kernels/ops/dropout.h"

namespace ogrom::reference {

inline double dropout_factor(const ops::DropoutSpec& spec, i64 element) {
    if (spec.p == 0) {
        return 1;
    }
    const u32 word = random_word(spec.seed, spec.site, spec.step, static_cast<u64>(element));
    return uniform(word) >= spec.p ? 1 / (1 - spec.p) : 0;
}

// Global element of (row, column c) of an Embedding or a Residual: (sample[row / T] * T_total + position0 + row mod T)
// * C + c, T_total 0 = T.
template <class Rows>
i64 element_of(const Rows& s, i64 row, i64 c) {
    const i64 length = s.T_total == 0 ? s.T : s.T_total;
    return s.sample == nullptr ? 0 : (s.sample[row / s.T] * length + s.position0 + row % s.T) * s.C + c;
}

}  // namespace ogrom::reference
