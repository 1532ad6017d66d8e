// The attention kernels of a device, and what chooses between them (attention.cu, by ops::attention_settings()):
//   plain   float and double, any shape (attention_plain.cu)
//   mma     Bf16 and Fp16, any shape: tensor cores by mma.sync, sm_80 and newer (attention_mma_*)
//   wgmma   as well, head_dim % 8 == 0 <= 128, 16-byte rows, no dropout, no segments: sm_90a (attention_wgmma_*.cu)
//   cudnn   as wgmma, Tq = Tk from one offset, below 2^31 elements; where the library is found (attention_cudnn.cpp)
// All of ours are repeatable. Callers have checked the shape and that there is something to do.
#pragma once
#include <string>

#include "kernels/ops/attention.h"

namespace ogrom::cuda {

template <class T>
void attention_forward_plain(Stream stream, const ops::AttentionForward<T>& op);
// delta: batch * heads * Tq elements.
template <class T>
void attention_backward_plain(Stream stream, const ops::AttentionBackward<T>& op, T* delta);

template <class T>
void attention_forward_mma(Stream stream, const ops::AttentionForward<T>& op);
// delta: batch * heads * Tq floats.
template <class T>
void attention_backward_mma(Stream stream, const ops::AttentionBackward<T>& op, float* delta);

// Whether the current device and the operation's pointers and strides are what the wgmma kernels take.
template <class T>
bool attention_takes_wgmma(const ops::AttentionForward<T>& op);
template <class T>
bool attention_takes_wgmma(const ops::AttentionBackward<T>& op);
template <class T>
void attention_forward_wgmma(Stream stream, const ops::AttentionForward<T>& op);
// Working memory of the backward pass: lse and delta, fp32 sums of dq, counters of the tiles.
i64 attention_wgmma_bytes(const ops::AttentionShape& shape);
template <class T>
void attention_backward_wgmma(Stream stream, const ops::AttentionBackward<T>& op, void* workspace);

// cuDNN as it was found at run time; `reason` says why not.
struct CudnnLibrary {
    bool found = false;
    i64 version = 0;  // 91900 = 9.19.0
    std::string reason;
};
const CudnnLibrary& cudnn_library();
// False where cuDNN has no plan for this shape on this device; nothing is enqueued then.
template <class T>
bool attention_forward_cudnn(Stream stream, const ops::AttentionForward<T>& op);
template <class T>
bool attention_backward_cudnn(Stream stream, const ops::AttentionBackward<T>& op);

}  // namespace ogrom::cuda
