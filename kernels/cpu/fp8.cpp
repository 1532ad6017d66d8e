// kernels/ops/fp8.h, the plain reference: codes one by one, products in double.
#include "kernels/ops/fp8.h"

#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/common/fault.h"
#include "kernels/common/parallel.h"
#include "kernels/cuda/ops.h"
#include "kernels/ops/matmul.h"

namespace ogrom::ops {
namespace {

// NaN where there is one.
template <class T>
float largest_of(const T* x, i64 n) {
    float largest = 0;
    for (i64 i = 0; i < n; ++i) {
        const float size = std::abs(static_cast<float>(x[i]));
        if (size > largest || std::isnan(size)) {
            largest = size;
        }
        if (std::isnan(size)) {
            break;
        }
    }
    return largest;
}

std::vector<double> opened(const Fp8Matrix& matrix, i64 n) {
    std::vector<double> values(static_cast<std::size_t>(n));
    for (i64 i = 0; i < n; ++i) {
        values[static_cast<std::size_t>(i)] = static_cast<double>(from_fp8(matrix.codes[i], matrix.format));
    }
    return values;
}

}  // namespace

template <class T>
void quantise(Stream stream, const Quantise<T>& op) {
    OGROM_ASSERT(is_fp8(op.format) && (op.column_sums == nullptr || op.largest == Largest::measured));
    if (stream.backend == Backend::cuda) {
        fail(ExitCode::usage, "quantise: on a GPU of bf16 alone");
    }
    if (op.column_sums != nullptr) {
        bias_gradient<T>(stream, {op.column_sums, op.x, op.rows, op.cols, op.cols});
    }
    if (op.largest == Largest::measured) {
        op.scale->largest = largest_of(op.x, op.rows * op.cols);
    }
    float factor = fp8_factor(op.scale->largest, op.format);
    op.scale->inverse = 1.0F / factor;
    if (fault_active("fp8_factor_ignored")) {
        factor = 1;
    }
    parallel_ranges(op.rows, 1, [&](i64 first, i64 last) {
        for (i64 row = first; row < last; ++row) {
            for (i64 col = 0; col < op.cols; ++col) {
                const Fp8Code code = to_fp8(static_cast<float>(op.x[row * op.cols + col]) * factor, op.format);
                if (op.codes != nullptr) {
                    op.codes[row * op.cols + col] = code;
                }
                if (op.transposed != nullptr) {
                    op.transposed[col * op.rows + row] = code;
                }
            }
        }
    });
}

template <class Y>
void fp8_matmul(Stream stream, const Fp8Matmul<Y>& op) {
    OGROM_ASSERT(is_fp8(op.a.format) && is_fp8(op.b.format) && (op.beta == 0 || op.beta == 1));
    if (stream.backend == Backend::cuda) {
        if constexpr (std::is_same_v<Y, float>) {
            cuda::fp8_matmul(stream, op);
            return;
        }
        fail(ExitCode::usage, "fp8_matmul: on a GPU into bf16 or fp32 alone");
    }
    const std::vector<double> a = opened(op.a, op.m * op.k), b = opened(op.b, op.n * op.k);
    std::vector<double> sums(static_cast<std::size_t>(op.m * op.n));
    matmul<double>(stream, {.y = sums.data(),
                            .a = a.data(),
                            .b = b.data(),
                            .m = op.m,
                            .n = op.n,
                            .k = op.k,
                            .ldy = op.n,
                            .lda = op.k,
                            .ldb = op.k,
                            .transpose_b = Transpose::yes});
    const double inverse = static_cast<double>(op.a.scale->inverse) * static_cast<double>(op.b.scale->inverse);
    for (i64 i = 0; i < op.m * op.n; ++i) {
        const double product = inverse * sums[static_cast<std::size_t>(i)];
        op.y[i] = static_cast<Y>(op.beta == 0 ? product : product + static_cast<double>(op.y[i]));
    }
}

template void quantise(Stream, const Quantise<float>&);
template void quantise(Stream, const Quantise<double>&);
template void fp8_matmul(Stream, const Fp8Matmul<float>&);
template void fp8_matmul(Stream, const Fp8Matmul<double>&);

template <>
void quantise(Stream stream, const Quantise<Bf16>& op) {
    require(stream.backend == Backend::cuda, ExitCode::usage, "quantise: bf16 needs a GPU");
    cuda::quantise(stream, op);
}
template <>
void fp8_matmul(Stream stream, const Fp8Matmul<Bf16>& op) {
    require(stream.backend == Backend::cuda, ExitCode::usage, "fp8_matmul: bf16 needs a GPU");
    cuda::fp8_matmul(stream, op);
}

// numerics.linears = "fp8" is refused beside fp16: nobody comes here.
template <>
void quantise(Stream, const Quantise<Fp16>&) {
    fail(ExitCode::usage, "quantise: fp16 has no fp8 codes, bf16 has");
}
template <>
void fp8_matmul(Stream, const Fp8Matmul<Fp16>&) {
    fail(ExitCode::usage, "fp8_matmul: no products into fp16, into bf16 there are");
}

}  // namespace ogrom::ops
