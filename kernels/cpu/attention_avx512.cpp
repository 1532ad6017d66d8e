// Attention for processors with AVX-512: 32 registers hold a tile of 12 rows x 2 vectors. Compiled with
// -march=x86-64-v4 and called only where the processor has it.
#include "kernels/cpu/attention_backward.h"
#include "kernels/cpu/attention_forward.h"

namespace ogrom::cpu {

template <>
AttentionKernels<float> attention_kernels_avx512() {
    using S = Simd<float, 64, 12>;
    return {forward_job<S>, backward_job<S>};
}

template <>
AttentionKernels<double> attention_kernels_avx512() {
    using S = Simd<double, 64, 12>;
    return {forward_job<S>, backward_job<S>};
}

}  // namespace ogrom::cpu
