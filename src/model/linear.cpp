// Comes in: x [rows, in_local] (arena), weight [out_local, in_local] (unit); backward dy [rows, out_local].
// Goes out: y [rows, out_local]; backward dx [rows, in_local], dw and db added to the unit's gradients.
// Next: back to the layer that called (attention.cpp, mlp.cpp)
#include "src/model/linear.h"

#include "kernels/ops/linear.h"

namespace ogrom {

template <class T>
void linear_forward(Stream stream, const Linear<T>& linear, T* y, const T* x, i64 rows) {
    const i64 out = linear.out_local;
    const i64 in = linear.in_local;
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
void linear_input_gradient(Stream stream, const Linear<T>& linear, T* d_x, const T* d_y, i64 rows) {
    const i64 out = linear.out_local;
    const i64 in = linear.in_local;
    // dx = dy w
    ops::matmul<T>(
        stream,
        {.y = d_x, .a = d_y, .b = linear.weight, .m = rows, .n = in, .k = out, .ldy = in, .lda = out, .ldb = in});
}

template <class T>
void linear_weight_gradient(Stream stream, const Linear<T>& linear, const T* d_y, const T* x, i64 rows) {
    const i64 out = linear.out_local;
    const i64 in = linear.in_local;
    // dw += dy^T x
    ops::matmul<T, GradientOf<T>>(stream, {.y = linear.d_weight,
                                           .a = d_y,
                                           .b = x,
                                           .m = out,
                                           .n = in,
                                           .k = rows,
                                           .ldy = in,
                                           .lda = out,
                                           .ldb = in,
                                           .transpose_a = ops::Transpose::yes,
                                           .beta = 1});
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

template <class T>
void linear_gradients(Stream stream, const Linear<T>& linear, const T* d_y, const T* x, i64 rows) {
    // dw += dy^T x ; db += sum_rows dy
    ops::linear_gradients<T>(stream, {.d_weight = linear.d_weight,
                                      .d_bias = linear.d_bias,
                                      .d_y = d_y,
                                      .x = x,
                                      .rows = rows,
                                      .in = linear.in_local,
                                      .out = linear.out_local});
}

#define OGROM_INSTANTIATE(T)                                                                    \
    template void linear_forward<T>(Stream, const Linear<T>&, T*, const T*, i64);               \
    template void linear_input_gradient<T>(Stream, const Linear<T>&, T*, const T*, i64);        \
    template void linear_weight_gradient<T>(Stream, const Linear<T>&, const T*, const T*, i64); \
    template void linear_bias_gradient<T>(Stream, const Linear<T>&, const T*, i64);             \
    template void linear_bias_forward<T>(Stream, const Linear<T>&, T*, const T*, i64);          \
    template void linear_gradients<T>(Stream, const Linear<T>&, const T*, const T*, i64)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
