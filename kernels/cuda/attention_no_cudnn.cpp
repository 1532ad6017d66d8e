// The cuDNN entries of a build whose configuration did not find the cudnn-frontend headers.
#include "kernels/cuda/attention.h"

namespace ogrom::cuda {

const CudnnLibrary& cudnn_library() {
    static const CudnnLibrary none{false, 0, "cudnn_frontend.h was not found when this binary was configured"};
    return none;
}
template <class T>
bool attention_forward_cudnn(Stream, const ops::AttentionForward<T>&) {
    return false;
}
template bool attention_forward_cudnn(Stream, const ops::AttentionForward<Bf16>&);
template bool attention_forward_cudnn(Stream, const ops::AttentionForward<Fp16>&);
template <class T>
bool attention_backward_cudnn(Stream, const ops::AttentionBackward<T>&) {
    return false;
}
template bool attention_backward_cudnn(Stream, const ops::AttentionBackward<Bf16>&);
template bool attention_backward_cudnn(Stream, const ops::AttentionBackward<Fp16>&);

}  // namespace ogrom::cuda
