// The CUDA side of kernels/ops: the same contracts with pointers to device memory. Everything is enqueued on the
// stream (of the current device) and nothing waits for it, except sum_of_squares and all_finite, which return a value.
// What an operation reads or adds to by address lives on the device as well: scale_at, step_at, scalars_at, loss_sum,
// sample, and the ExactSum of block_squares. Sums have an order that is a function of the shape: repeatable, no float
// atomics. Working memory: kernels/cuda/scratch.h. Differences from the CPU are roundings, except
//   cross_entropy_sum   leaves the logits alone; cross_entropy_finish makes the exponentials
//   targets, tokens     are not checked by an assertion: a target outside gives a NaN loss, a token outside no row
#pragma once
#include "kernels/common/stream.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/fp8.h"
#include "kernels/ops/gelu.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/optimizer.h"
#include "kernels/ops/residual.h"
#include "kernels/ops/residual_norm.h"
#include "kernels/ops/weight_hash.h"

namespace ogrom::cuda {

template <class T>
void embedding_forward(Stream stream, const ops::EmbeddingForward<T>& op);
template <class T>
void embedding_backward(Stream stream, const ops::EmbeddingBackward<T>& op);
template <class T>
void position_forward(Stream stream, const ops::PositionForward<T>& op);

template <class T>
void layernorm_forward(Stream stream, const ops::LayerNormForward<T>& op);
template <class T>
void layernorm_backward(Stream stream, const ops::LayerNormBackward<T>& op);

template <class T>
void add_bias(Stream stream, const ops::AddBias<T>& op);
template <class T>
void residual_forward(Stream stream, const ops::ResidualForward<T>& op);
template <class T>
void residual_norm_forward(Stream stream, const ops::ResidualNormForward<T>& op);
template <class T>
void dropout_backward(Stream stream, const ops::DropoutBackward<T>& op);

template <class T>
void bias_gelu_forward(Stream stream, const ops::BiasGeluForward<T>& op);
template <class T>
void gelu_forward(Stream stream, const ops::GeluForward<T>& op);
template <class T>
void gelu_backward(Stream stream, const ops::GeluBackward<T>& op);

template <class T>
void cross_entropy(Stream stream, const ops::CrossEntropy<T>& op);
template <class T>
void cross_entropy_max(Stream stream, const ops::CrossEntropyPart<T>& op);
template <class T>
void cross_entropy_sum(Stream stream, const ops::CrossEntropyPart<T>& op);
template <class T>
void cross_entropy_finish(Stream stream, const ops::CrossEntropyPart<T>& op);

template <class T>
double sum_of_squares(Stream stream, const T* x, i64 n);
template <class T>
void block_squares(Stream stream, std::span<const ops::SquaresRange<T>> ranges, ExactSum& sum);
template <class T>
bool all_finite(Stream stream, const T* x, i64 n);
template <class T>
void last_nonfinite(Stream stream, u64* key, const T* x, i64 n, u64 base);

template <class T>
u64 weight_hash(Stream stream, std::span<const ops::HashRun<T>> runs);

template <class T>
void adamw(Stream stream, const ops::AdamW<T>& op);
template <class T>
void sgd(Stream stream, const ops::Sgd<T>& op);

template <class Y, class X>
void add(Stream stream, Y* y, const X* x, i64 n);
template <class T>
void copy(Stream stream, T* y, const T* x, i64 n);
template <class T>
void fill(Stream stream, T* y, T value, i64 n);
template <class To, class From>
void cast(Stream stream, To* y, const From* x, i64 n);

// cublasLt, with sums in float (double for double); products of floats in fp32 unless products.h is told TF32.
template <class T, class Y>
void matmul(Stream stream, const ops::Matmul<T, Y>& op);
template <class T>
void bias_gradient(Stream stream, const ops::BiasGradient<T>& op);

// kernels/ops/linear.h in one product. false, with nothing enqueued: this shape has none or it is slower, the caller
// makes the two operations (always so for float and double).
template <class T>
[[nodiscard]] bool linear_bias(Stream stream, const ops::LinearBias<T>& op);
template <class T>
[[nodiscard]] bool linear_bias_gelu(Stream stream, const ops::LinearBiasGelu<T>& op);
template <class T>
[[nodiscard]] bool linear_input_gelu(Stream stream, const ops::LinearInputGelu<T>& op);
template <class T>
[[nodiscard]] bool linear_gradients(Stream stream, const ops::LinearGradients<T>& op);

// kernels/ops/fp8.h, of devices of compute capability 8.9 and newer. The three that return bool do the pass beside the
// product as Epilogue has it, under the rule above: into op.y with bias; u = op.y with bias and y = gelu(u); the
// gradient through a gelu of u.
void quantise(Stream stream, const ops::Quantise<Bf16>& op);
void fp8_matmul(Stream stream, const ops::Fp8Matmul<Bf16>& op);
void fp8_matmul(Stream stream, const ops::Fp8Matmul<float>& op);
[[nodiscard]] bool fp8_matmul_bias(Stream stream, const ops::Fp8Matmul<Bf16>& op, const Bf16* bias);
[[nodiscard]] bool fp8_matmul_bias_gelu(Stream stream, const ops::Fp8Matmul<Bf16>& op, const Bf16* bias, Bf16* y);
[[nodiscard]] bool fp8_matmul_gelu_backward(Stream stream, const ops::Fp8Matmul<Bf16>& op, const Bf16* u);

// float, double: plain arithmetic; Bf16, Fp16: tensor cores or cuDNN, see kernels/cuda/attention.h.
template <class T>
void attention_forward(Stream stream, const ops::AttentionForward<T>& op);
template <class T>
void attention_backward(Stream stream, const ops::AttentionBackward<T>& op);
// Bytes of scratch.h that our own attention kernels take at most, of any type; cuDNN's plans say theirs at run time.
i64 attention_scratch(const ops::AttentionShape& shape);

}  // namespace ogrom::cuda
