// Attention for processors with AVX2 and FMA: 16 registers hold a tile of 6 rows x 2 vectors.
#include "kernels/cpu/attention_backward.h"
#include "kernels/cpu/attention_forward.h"

namespace ogrom::cpu {

template <>
AttentionKernels<float> attention_kernels_avx2() {
    using S = Simd<float, 32, 6>;
    return {forward_job<S>, backward_job<S>};
}

template <>
AttentionKernels<double> attention_kernels_avx2() {
    using S = Simd<double, 32, 6>;
    return {forward_job<S>, backward_job<S>};
}

}  // namespace ogrom::cpu
