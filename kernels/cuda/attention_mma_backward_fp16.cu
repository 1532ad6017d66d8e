#include "kernels/cuda/attention_mma_backward.cuh"

namespace ogrom::cuda {

template void attention_backward_mma(Stream, const ops::AttentionBackward<Fp16>&, float*);

}  // namespace ogrom::cuda
