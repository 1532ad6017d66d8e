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

// Global element of (row, column c): (sample[row / T] * T + row mod T) * C + c.
inline i64 element_of(const i64* sample, i64 row, i64 T_, i64 C, i64 c) {
    return sample == nullptr ? 0 : (sample[row / T_] * T_ + row % T_) * C + c;
}

}  // namespace ogrom::reference
