// Comes in: x [rows, in_local] (arena), weight [out_local, in_local] (flat weights); backward dy [rows, out_local].
// Goes out: y [rows, out_local]; backward dx [rows, in_local], dw and db added to the flat gradients.
// Next: back to the layer that called (attention.cpp, mlp.cpp)
#include "src/model/linear.h"

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
void linear_backward(Stream stream, const Linear<T>& linear, T* d_x, const T* d_y, const T* x, i64 rows) {
    const i64 out = linear.out_local;
    const i64 in = linear.in_local;
    // db += sum_rows dy
    if (linear.d_bias != nullptr) {
        ops::bias_gradient<T>(stream, {.d_bias = linear.d_bias, .d_y = d_y, .rows = rows, .cols = out, .ldy = out});
    }
    // dw += dy^T x
    ops::matmul<T>(stream, {.y = linear.d_weight,
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
    // dx = dy w
    ops::matmul<T>(
        stream,
        {.y = d_x, .a = d_y, .b = linear.weight, .m = rows, .n = in, .k = out, .ldy = in, .lda = out, .ldb = in});
}

template void linear_forward<float>(Stream, const Linear<float>&, float*, const float*, i64);
template void linear_forward<double>(Stream, const Linear<double>&, double*, const double*, i64);
template void linear_backward<float>(Stream, const Linear<float>&, float*, const float*, const float*, i64);
template void linear_backward<double>(Stream, const Linear<double>&, double*, const double*, const double*, i64);

}  // namespace ogrom
