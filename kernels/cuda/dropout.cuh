// Dropout masks of the CUDA kernels, drawn by global element index (kernels/ops/dropout.h): the bits of the CPU.
#pragma once
#include "kernels/common/rng.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/ops/dropout.h"

namespace ogrom::cuda {

struct Mask {
    ops::DropoutSpec spec;
    const i64* sample;
    Divider sequence;
    i64 T_total, position0, C;
    u32 threshold;
    double kept;

    // An operation with the fields of ops/residual.h.
    template <class Op>
    explicit Mask(const Op& op)
        : spec(op.dropout),
          sample(op.sample),
          sequence(op.T_ > 0 ? op.T_ : 1),
          T_total(op.T_total > 0 ? op.T_total : op.T_),
          position0(op.position0),
          C(op.C),
          threshold(dropout_threshold(op.dropout.p)),
          kept(1.0 / (1.0 - op.dropout.p)) {}

    [[nodiscard]] bool drops() const { return spec.p > 0; }

    // Global element of (row, column 0).
    __device__ i64 row_element(i64 row) const {
        const i64 b = sequence.quotient(row);
        return (sample[b] * T_total + position0 + row - b * static_cast<i64>(sequence.divisor)) * C;
    }

    // values := dropout(values); they are elements [element, element + V), element a multiple of V.
    template <class T, int V>
    __device__ void apply(Values<T, V>& values, i64 element) const {
        const u32 step = ops::dropout_step(spec);
        constexpr int drawn = V < 4 ? V : 4;
#pragma unroll
        for (int first = 0; first < V; first += drawn) {
            const u64 index = static_cast<u64>(element + first);
            const PhiloxBlock block = random_block(spec.seed, spec.site, step, index >> 2);
#pragma unroll
            for (int i = 0; i < drawn; ++i) {
                u32 word = block.word[i];
                if constexpr (V == 2) {
                    word = (index & 2) != 0 ? block.word[i + 2] : word;
                } else if constexpr (V == 1) {
                    const u32 low = (index & 1) != 0 ? block.word[1] : block.word[0];
                    const u32 high = (index & 1) != 0 ? block.word[3] : block.word[2];
                    word = (index & 2) != 0 ? high : low;
                }
                Math<T>& value = values.at[first + i];
                value = word >= threshold ? value * static_cast<Math<T>>(kept) : Math<T>(0);
            }
        }
    }
};

}  // namespace ogrom::cuda
