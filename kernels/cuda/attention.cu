// Which kernel an attention runs, by type, shape, device and ops::attention_settings().
#include "kernels/cuda/attention.h"
#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

using ops::AttentionChoice;
using ops::AttentionOrder;
using ops::AttentionShape;

// Rows and tiles are counted in 32 bits, samples and heads are grid coordinates.
void check_extents(const AttentionShape& s) {
    constexpr i64 most = 65535;
    if (s.queries > (i64{1} << 30) || s.keys > (i64{1} << 30) || s.batch > most || s.heads > most) {
        fail(ExitCode::usage, "attention: a GPU takes up to 65535 samples and heads of up to 2^30 positions, not " +
                                  std::to_string(s.batch) + ", " + std::to_string(s.heads) + ", " +
                                  std::to_string(s.queries) + " x " + std::to_string(s.keys));
    }
}

// Every row of a head in whole 16-byte packs, and nothing masked but the future.
bool plain_packs(const AttentionShape& s) {
    i64 all = s.head_dim;
    for (const i64 stride : {s.query_stride, s.key_stride, s.value_stride, s.out_stride, s.query_batch_stride,
                             s.key_batch_stride, s.value_batch_stride, s.out_batch_stride}) {
        all |= stride;
    }
    return all % 8 == 0 && s.head_dim <= 128 && s.dropout.p == 0 && s.query_segments == nullptr && s.queries > 0 &&
           s.keys > 0;
}

// cuDNN 9 writes wrong gradients from element 2^31 of packed q|k|v rows on (tests/device/attention_large.cpp).
bool below_31_bits(const AttentionShape& s) {
    const i64 most = std::max({s.query_batch_stride, s.key_batch_stride, s.value_batch_stride, s.out_batch_stride});
    return s.batch * most < (i64{1} << 31);
}

template <class T>
bool aligned(const ops::AttentionForward<T>& op) {
    return aligned16(op.q, op.k, op.v, op.out);
}
template <class T>
bool aligned(const ops::AttentionBackward<T>& op) {
    return aligned16(op.q, op.k, op.v, op.out, op.d_out, op.d_q, op.d_k, op.d_v);
}

template <class Op>
bool cudnn_may_take(const Op& op) {
    const AttentionShape& s = op.shape;
    const ops::AttentionSettings settings = ops::attention_settings();
    if (settings.choice == AttentionChoice::own) {
        return false;
    }
    if (settings.choice == AttentionChoice::cudnn && !cudnn_library().found) {
        fail(ExitCode::usage, "attention by cuDNN was asked for: " + cudnn_library().reason);
    }
    return plain_packs(s) && below_31_bits(s) && aligned(op) && s.queries == s.keys && s.query_offset == s.key_offset;
}

}  // namespace

template <class T>
bool attention_takes_wgmma(const ops::AttentionForward<T>& op) {
    return plain_packs(op.shape) && aligned(op) && is_hopper();
}
template <class T>
bool attention_takes_wgmma(const ops::AttentionBackward<T>& op) {
    return plain_packs(op.shape) && aligned(op) && is_hopper();
}

i64 attention_scratch(const AttentionShape& shape) {
    const i64 delta = shape.batch * shape.heads * shape.queries * static_cast<i64>(sizeof(double));
    return std::max(delta, plain_packs(shape) ? attention_wgmma_bytes(shape) : 0);
}

template <class T>
void attention_forward(Stream stream, const ops::AttentionForward<T>& op) {
    check_extents(op.shape);
    if (op.shape.batch == 0 || op.shape.queries == 0) {
        return;
    }
    if constexpr (!is_16_bit<T>) {
        attention_forward_plain(stream, op);
    } else if (cudnn_may_take(op) && attention_forward_cudnn(stream, op)) {
        return;
    } else if (attention_takes_wgmma(op)) {
        attention_forward_wgmma(stream, op);
    } else {
        attention_forward_mma(stream, op);
    }
}

template <class T>
void attention_backward(Stream stream, const ops::AttentionBackward<T>& op) {
    check_extents(op.shape);
    const AttentionShape& s = op.shape;
    if (s.batch == 0) {
        return;
    }
    using Sum = StatisticOf<T>;
    const auto delta = [&] {
        return static_cast<Sum*>(scratch(stream, s.batch * s.heads * s.queries * static_cast<i64>(sizeof(Sum))));
    };
    if constexpr (!is_16_bit<T>) {
        attention_backward_plain(stream, op, delta());
    } else if (ops::attention_settings().backward == AttentionOrder::any && cudnn_may_take(op) &&
               attention_backward_cudnn(stream, op)) {
        return;
    } else if (attention_takes_wgmma(op)) {
        attention_backward_wgmma(stream, op, scratch(stream, attention_wgmma_bytes(s)));
    } else {
        attention_backward_mma(stream, op, delta());
    }
}

template bool attention_takes_wgmma(const ops::AttentionForward<Bf16>&);
template bool attention_takes_wgmma(const ops::AttentionForward<Fp16>&);
template bool attention_takes_wgmma(const ops::AttentionBackward<Bf16>&);
template bool attention_takes_wgmma(const ops::AttentionBackward<Fp16>&);
template void attention_forward(Stream, const ops::AttentionForward<float>&);
template void attention_forward(Stream, const ops::AttentionForward<double>&);
template void attention_forward(Stream, const ops::AttentionForward<Bf16>&);
template void attention_forward(Stream, const ops::AttentionForward<Fp16>&);
template void attention_backward(Stream, const ops::AttentionBackward<float>&);
template void attention_backward(Stream, const ops::AttentionBackward<double>&);
template void attention_backward(Stream, const ops::AttentionBackward<Bf16>&);
template void attention_backward(Stream, const ops::AttentionBackward<Fp16>&);

}  // namespace ogrom::cuda
