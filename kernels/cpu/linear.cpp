// The two operations of each entry, on either backend, unless the GPU has them in one.
#include "kernels/ops/linear.h"

#include "kernels/common/fault.h"
#include "kernels/cuda/ops.h"

namespace ogrom::ops {
namespace {

template <class T>
Matmul<T> forward_product(T* y, const T* x, const T* weight, i64 rows, i64 in, i64 out) {
    return {.y = y,
            .a = x,
            .b = weight,
            .m = rows,
            .n = out,
            .k = in,
            .ldy = out,
            .lda = in,
            .ldb = in,
            .transpose_b = Transpose::yes};
}

template <class Op>
bool may_fuse(Stream stream, const Op& op) {
    return stream.backend == Backend::cuda && op.fusion == Fusion::allowed;
}

}  // namespace

template <class T>
void linear_bias(Stream stream, const LinearBias<T>& op) {
    if (may_fuse(stream, op) && cuda::linear_bias(stream, op)) {
        return;
    }
    matmul(stream, forward_product(op.y, op.x, op.weight, op.rows, op.in, op.out));
    if (fault_active("linear_bias_lost")) {
        return;
    }
    add_bias<T>(stream, {op.y, op.bias, op.rows, op.out, op.out});
}

template <class T>
void linear_bias_gelu(Stream stream, const LinearBiasGelu<T>& op) {
    if (may_fuse(stream, op) && cuda::linear_bias_gelu(stream, op)) {
        return;
    }
    matmul(stream, forward_product(op.u, op.x, op.weight, op.rows, op.in, op.out));
    bias_gelu_forward<T>(stream, {op.y, op.u, op.bias, op.rows, op.out});
}

template <class T>
void linear_input_gelu(Stream stream, const LinearInputGelu<T>& op) {
    if (may_fuse(stream, op) && cuda::linear_input_gelu(stream, op)) {
        return;
    }
    matmul<T>(stream, {.y = op.d_u,
                       .a = op.d_y,
                       .b = op.weight,
                       .m = op.rows,
                       .n = op.in,
                       .k = op.out,
                       .ldy = op.in,
                       .lda = op.out,
                       .ldb = op.in});
    gelu_backward<T>(stream, {op.d_u, op.d_u, op.u, op.rows * op.in});
}

template <class T>
void linear_gradients(Stream stream, const LinearGradients<T>& op) {
    if (may_fuse(stream, op) && cuda::linear_gradients(stream, op)) {
        return;
    }
    if (op.d_bias != nullptr) {
        bias_gradient<T>(stream, {op.d_bias, op.d_y, op.rows, op.out, op.out});
    }
    matmul<T, GradientOf<T>>(stream, {.y = op.d_weight,
                                      .a = op.d_y,
                                      .b = op.x,
                                      .m = op.out,
                                      .n = op.in,
                                      .k = op.rows,
                                      .ldy = op.in,
                                      .lda = op.out,
                                      .ldb = op.in,
                                      .transpose_a = Transpose::yes,
                                      .beta = 1});
}

#define OGROM_INSTANTIATE(T)                                            \
    template void linear_bias(Stream, const LinearBias<T>&);            \
    template void linear_bias_gelu(Stream, const LinearBiasGelu<T>&);   \
    template void linear_input_gelu(Stream, const LinearInputGelu<T>&); \
    template void linear_gradients(Stream, const LinearGradients<T>&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom::ops
