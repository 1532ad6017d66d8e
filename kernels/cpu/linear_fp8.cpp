// kernels/ops/linear_fp8.h on either backend: operands in fp8 into the working memory, then the products. A pass beside
// a product is part of it where the GPU's library has that and it is faster, else its own operation.
#include "kernels/ops/linear_fp8.h"

#include <algorithm>

#include "kernels/cuda/ops.h"
#include "kernels/ops/fp8.h"
#include "kernels/ops/gelu.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/residual.h"

namespace ogrom::ops {
namespace {

constexpr i64 line = 256;

// Working memory: a scale, then the codes. Forward x and w; backward d_y, its transpose, and in one place, one after
// the other, the transposes of x and of w.
struct Places {
    Fp8Scale* scale;
    Fp8Code* first;
    Fp8Code* second;
    Fp8Code* third;
};
Places places(void* workspace, i64 first, i64 second) {
    auto* const start = static_cast<unsigned char*>(workspace);
    auto* const codes = start + line;
    auto* const behind = codes + round_up(first, line);
    return {reinterpret_cast<Fp8Scale*>(start), codes, behind, behind + round_up(second, line)};
}

template <class T>
Quantise<T> into_rows(Fp8Code* codes, Fp8Scale* scale, const T* x, i64 rows, i64 cols) {
    return {codes, nullptr, scale, x, rows, cols, Dtype::fp8_e4m3};
}
template <class T>
Quantise<T> into_columns(Fp8Code* codes, Fp8Scale* scale, const T* x, i64 rows, i64 cols) {
    return {nullptr, codes, scale, x, rows, cols, Dtype::fp8_e4m3, Largest::given};
}

template <class Op>
bool may_fuse(Stream stream, const Op& op) {
    return stream.backend == Backend::cuda && op.fusion == Fusion::allowed;
}

template <class T>
void forward_product(Stream stream, const LinearFp8Forward<T>& op, const Fp8Matrix& x, const Fp8Matrix& weight) {
    T* const affine = op.u != nullptr ? op.u : op.y;
    const Fp8Matmul<T> product{affine, x, weight, op.rows, op.out, op.in, ProductSums::fast};
    if (may_fuse(stream, op) && op.bias != nullptr) {
        if constexpr (std::is_same_v<T, Bf16>) {
            if (op.u == nullptr ? cuda::fp8_matmul_bias(stream, product, op.bias)
                                : cuda::fp8_matmul_bias_gelu(stream, product, op.bias, op.y)) {
                return;
            }
        }
    }
    fp8_matmul(stream, product);
    if (op.u != nullptr) {
        bias_gelu_forward<T>(stream, {op.y, op.u, op.bias, op.rows, op.out});
    } else if (op.bias != nullptr) {
        add_bias<T>(stream, {op.y, op.bias, op.rows, op.out, op.out});
    }
}

template <class T>
void input_product(Stream stream, const LinearFp8Backward<T>& op, const Fp8Matrix& d_y, const Fp8Matrix& weight) {
    const Fp8Matmul<T> product{op.d_x, d_y, weight, op.rows, op.in, op.out};
    if (may_fuse(stream, op) && op.u != nullptr) {
        if constexpr (std::is_same_v<T, Bf16>) {
            if (cuda::fp8_matmul_gelu_backward(stream, product, op.u)) {
                return;
            }
        }
    }
    fp8_matmul(stream, product);
    if (op.u != nullptr) {
        gelu_backward<T>(stream, {op.d_x, op.d_x, op.u, op.rows * op.in});
    }
}

}  // namespace

i64 linear_fp8_workspace(i64 rows, i64 in, i64 out) {
    const i64 forward = round_up(rows * in, line) + round_up(out * in, line);
    const i64 backward = 2 * round_up(rows * out, line) + round_up(std::max(rows, out) * in, line);
    return line + std::max(forward, backward);
}

template <class T>
void linear_fp8_forward(Stream stream, const LinearFp8Forward<T>& op) {
    const Places at = places(op.workspace, op.rows * op.in, op.out * op.in);
    quantise<T>(stream, into_rows(at.first, &op.scales->x, op.x, op.rows, op.in));
    quantise<T>(stream, into_rows(at.second, &op.scales->weight, op.weight, op.out, op.in));
    forward_product(stream, op, {at.first, &op.scales->x, Dtype::fp8_e4m3},
                    {at.second, &op.scales->weight, Dtype::fp8_e4m3});
}

template <class T>
void linear_fp8_backward(Stream stream, const LinearFp8Backward<T>& op) {
    const Places at = places(op.workspace, op.rows * op.out, op.rows * op.out);
    Fp8Code* const rows = op.d_x != nullptr ? at.first : nullptr;
    Fp8Code* const columns = op.d_weight != nullptr ? at.second : nullptr;
    GradientOf<T>* const sums = op.d_weight != nullptr ? op.d_bias : nullptr;
    // db += sum_rows d_y
    quantise<T>(stream, {.codes = rows,
                         .transposed = columns,
                         .scale = at.scale,
                         .x = op.d_y,
                         .rows = op.rows,
                         .cols = op.out,
                         .format = Dtype::fp8_e5m2,
                         .column_sums = sums});
    if (op.d_weight != nullptr) {
        // dw += d_y^T x
        quantise<T>(stream, into_columns(at.third, &op.scales->x, op.x, op.rows, op.in));
        fp8_matmul<GradientOf<T>>(stream, {.y = op.d_weight,
                                           .a = {columns, at.scale, Dtype::fp8_e5m2},
                                           .b = {at.third, &op.scales->x, Dtype::fp8_e4m3},
                                           .m = op.out,
                                           .n = op.in,
                                           .k = op.rows,
                                           .beta = 1});
    }
    if (op.d_x != nullptr) {
        // d_x = d_y w
        quantise<T>(stream, into_columns(at.third, &op.scales->weight, op.weight, op.out, op.in));
        input_product(stream, op, {rows, at.scale, Dtype::fp8_e5m2}, {at.third, &op.scales->weight, Dtype::fp8_e4m3});
    }
}

#define OGROM_INSTANTIATE(T)                                              \
    template void linear_fp8_forward(Stream, const LinearFp8Forward<T>&); \
    template void linear_fp8_backward(Stream, const LinearFp8Backward<T>&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom::ops
