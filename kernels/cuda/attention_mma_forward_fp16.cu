#include "kernels/cuda/attention_mma_forward.cuh"

namespace ogrom::cuda {

template void attention_forward_mma(Stream, const ops::AttentionForward<Fp16>&);

}  // namespace ogrom::cuda
