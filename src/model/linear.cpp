// Comes in: x [rows, in_local] (arena), weight [out_local, in_local] (unit); backward dy [rows, out_local].
// Goes out: y [rows, out_local]; backward dx [rows, in_local], dw and db added to the unit's gradients.
// Next: back to the layer that called (attention.cpp, mlp.cpp)
#include "src/model/linear.h"

namespace ogrom {
namespace {

template <class T>
bool in_fp8(const Linear<T>& linear, i64 rows) {
    return linear.fp8.workspace != nullptr && ops::linear_fp8_fits(rows, linear.in_local, linear.out_local);
}

// u null: no gelu; bias null: none.
template <class T>
void forward_fp8(Stream stream, const Linear<T>& linear, T* y, T* u, const T* x, const T* bias, i64 rows,
                 ops::Fusion fusion) {
    ops::linear_fp8_forward<T>(stream, {.y = y,
                                        .u = u,
                                        .x = x,
                                        .weight = linear.weight,
                                        .bias = bias,
                                        .rows = rows,
                                        .in = linear.in_local,
                                        .out = linear.out_local,
                                        .workspace = linear.fp8.workspace,
                                        .scales = linear.fp8.scales,
                                        .fusion = fusion});
}

template <class T>
void backward_fp8(Stream stream, const Linear<T>& linear, const LinearBackward<T>& op, i64 rows) {
    ops::linear_fp8_backward<T>(stream, {.d_x = op.d_x,
                                         .d_weight = op.x != nullptr ? linear.d_weight : nullptr,
                                         .d_bias = op.bias == BiasGradients::added ? linear.d_bias : nullptr,
                                         .d_y = op.d_y,
                                         .x = op.x,
                                         .weight = linear.weight,
                                         .u = op.u,
                                         .rows = rows,
                                         .in = linear.in_local,
                                         .out = linear.out_local,
                                         .workspace = linear.fp8.workspace,
                                         .scales = linear.fp8.scales});
}

// dx = dy w, through a gelu where there is one
template <class T>
void input_gradient(Stream stream, const Linear<T>& linear, const LinearBackward<T>& op, i64 rows) {
    const i64 out = linear.out_local;
    const i64 in = linear.in_local;
    if (op.u != nullptr) {
        ops::linear_input_gelu<T>(
            stream,
            {.d_u = op.d_x, .d_y = op.d_y, .weight = linear.weight, .u = op.u, .rows = rows, .in = in, .out = out});
        return;
    }
    ops::matmul<T>(
        stream,
        {.y = op.d_x, .a = op.d_y, .b = linear.weight, .m = rows, .n = in, .k = out, .ldy = in, .lda = out, .ldb = in});
}

}  // namespace

template <class T>
void linear_forward(Stream stream, const Linear<T>& linear, T* y, const T* x, i64 rows) {
    const i64 out = linear.out_local;
    const i64 in = linear.in_local;
    if (in_fp8(linear, rows)) {
        forward_fp8<T>(stream, linear, y, nullptr, x, nullptr, rows, ops::Fusion::allowed);
        return;
    }
    // y = x w^T
    ops::matmul<T>(stream, {.y = y,
                            .a = x,
                            .b = linear.weight,
                            .m = rows,
                            .n = out,
                            .k = in,
                            .ldy = out,
                            .lda = in,
                            .ldb = in,
                            .transpose_b = ops::Transpose::yes});
}

template <class T>
void linear_bias_forward(Stream stream, const Linear<T>& linear, T* y, const T* x, i64 rows) {
    if (in_fp8(linear, rows)) {
        forward_fp8<T>(stream, linear, y, nullptr, x, linear.bias, rows, ops::Fusion::allowed);
        return;
    }
    // y = x w^T + b
    ops::linear_bias<T>(stream, {.y = y,
                                 .x = x,
                                 .weight = linear.weight,
                                 .bias = linear.bias,
                                 .rows = rows,
                                 .in = linear.in_local,
                                 .out = linear.out_local});
}

template <class T>
void linear_gelu_forward(Stream stream, const Linear<T>& linear, T* y, T* u, const T* x, i64 rows, ops::Fusion fusion) {
    if (in_fp8(linear, rows)) {
        forward_fp8<T>(stream, linear, y, u, x, linear.bias, rows, fusion);
        return;
    }
    // u = x w^T + b ; y = gelu(u)
    ops::linear_bias_gelu<T>(stream, {.y = y,
                                      .u = u,
                                      .x = x,
                                      .weight = linear.weight,
                                      .bias = linear.bias,
                                      .rows = rows,
                                      .in = linear.in_local,
                                      .out = linear.out_local,
                                      .fusion = fusion});
}

template <class T>
void linear_backward(Stream stream, const Linear<T>& linear, const LinearBackward<T>& op, i64 rows,
                     const std::function<void()>& between) {
    if (in_fp8(linear, rows)) {
        backward_fp8(stream, linear, op, rows);
        return;
    }
    // dw += dy^T x ; db += sum_rows dy
    if (op.x != nullptr) {
        ops::linear_gradients<T>(stream, {.d_weight = linear.d_weight,
                                          .d_bias = op.bias == BiasGradients::added ? linear.d_bias : nullptr,
                                          .d_y = op.d_y,
                                          .x = op.x,
                                          .rows = rows,
                                          .in = linear.in_local,
                                          .out = linear.out_local});
        if (op.d_x != nullptr && between) {
            between();
        }
    }
    // dx = dy w
    if (op.d_x != nullptr) {
        input_gradient(stream, linear, op, rows);
    }
}

template <class T>
void linear_bias_gradient(Stream stream, const Linear<T>& linear, const T* d_y, i64 rows) {
    if (linear.d_bias != nullptr) {
        // db += sum_rows dy
        ops::bias_gradient<T>(
            stream,
            {.d_bias = linear.d_bias, .d_y = d_y, .rows = rows, .cols = linear.out_local, .ldy = linear.out_local});
    }
}

#define OGROM_INSTANTIATE(T)                                                                            \
    template void linear_forward<T>(Stream, const Linear<T>&, T*, const T*, i64);                       \
    template void linear_bias_forward<T>(Stream, const Linear<T>&, T*, const T*, i64);                  \
    template void linear_gelu_forward<T>(Stream, const Linear<T>&, T*, T*, const T*, i64, ops::Fusion); \
    template void linear_backward<T>(Stream, const Linear<T>&, const LinearBackward<T>&, i64,           \
                                     const std::function<void()>&);                                     \
    template void linear_bias_gradient<T>(Stream, const Linear<T>&, const T*, i64)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
