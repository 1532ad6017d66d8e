// in: a, b (and y when beta != 0), host memory; out: y. Products of floats go to our own code where it is faster
// (matmul_own.cpp), all others to OpenBLAS: with all threads of the OpenMP team, or with the calling thread alone when
// that is already inside a parallel region.
#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <cblas.h>
#include <limits>
#include <type_traits>

#include "kernels/common/fault.h"
#include "kernels/common/parallel.h"
#include "kernels/cuda/ops.h"

namespace ogrom {
namespace {

constexpr i64 int_limit = std::numeric_limits<int>::max();

CBLAS_TRANSPOSE flag(ops::Transpose transpose) {
    return transpose == ops::Transpose::yes ? CblasTrans : CblasNoTrans;
}

void gemm(const ops::Matmul<float>& op) {
    cblas_sgemm(CblasRowMajor, flag(op.transpose_a), flag(op.transpose_b), static_cast<int>(op.m),
                static_cast<int>(op.n), static_cast<int>(op.k), op.alpha, op.a, static_cast<int>(op.lda), op.b,
                static_cast<int>(op.ldb), op.beta, op.y, static_cast<int>(op.ldy));
}

void gemm(const ops::Matmul<double>& op) {
    cblas_dgemm(CblasRowMajor, flag(op.transpose_a), flag(op.transpose_b), static_cast<int>(op.m),
                static_cast<int>(op.n), static_cast<int>(op.k), op.alpha, op.a, static_cast<int>(op.lda), op.b,
                static_cast<int>(op.ldb), op.beta, op.y, static_cast<int>(op.ldy));
}

// y = beta * y for an empty sum; beta = 0 stores zeros, so that a NaN in y does not live on.
template <class T>
void scale_only(const ops::Matmul<T>& op) {
    for (i64 i = 0; i < op.m; ++i) {
        T* row = op.y + i * op.ldy;
        for (i64 j = 0; j < op.n; ++j) {
            row[j] = op.beta == T(0) ? T(0) : op.beta * row[j];
        }
    }
}

// CBLAS prints and returns on a wrong stride, leaving y as it was: refuse first.
template <class T>
void check(const ops::Matmul<T>& op) {
    OGROM_ASSERT(op.m >= 0 && op.n >= 0 && op.k >= 0);
    const i64 columns_a = op.transpose_a == ops::Transpose::yes ? op.m : op.k;
    const i64 columns_b = op.transpose_b == ops::Transpose::yes ? op.k : op.n;
    OGROM_ASSERT(op.lda >= columns_a && op.ldb >= columns_b && op.ldy >= op.n);
    OGROM_ASSERT(op.lda <= int_limit && op.ldb <= int_limit && op.ldy <= int_limit);
}

template <class T>
const T* corner(const T* matrix, i64 stride, ops::Transpose transpose, i64 row, i64 column) {
    return transpose == ops::Transpose::yes ? matrix + column * stride + row : matrix + row * stride + column;
}

}  // namespace

namespace cpu {

template <class T>
void matmul_in_pieces(const ops::Matmul<T>& op, i64 limit) {
    for (i64 i = 0; i < op.m; i += limit) {
        for (i64 j = 0; j < op.n; j += limit) {
            for (i64 l = 0; l < op.k; l += limit) {
                ops::Matmul<T> piece = op;
                piece.m = std::min(limit, op.m - i);
                piece.n = std::min(limit, op.n - j);
                piece.k = std::min(limit, op.k - l);
                piece.a = corner(op.a, op.lda, op.transpose_a, i, l);
                piece.b = corner(op.b, op.ldb, op.transpose_b, l, j);
                piece.y = op.y + i * op.ldy + j;
                piece.beta = l == 0 ? op.beta : T(1);
                gemm(piece);
            }
        }
    }
}

template void matmul_in_pieces(const ops::Matmul<float>&, i64);
template void matmul_in_pieces(const ops::Matmul<double>&, i64);

}  // namespace cpu

namespace ops {

template <class T, class Y>
void matmul(Stream stream, const Matmul<T, Y>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::matmul(stream, op);
        return;
    }
    if (op.m == 0 || op.n == 0) {
        return;
    }
    Matmul<T, Y> product = op;
    if (fault_active("matmul_beta_ignored")) {
        product.beta = 0;
    }
    if (op.k == 0 || op.alpha == T(0)) {
        scale_only(product);
        return;
    }
    check(product);
    if constexpr (std::is_same_v<T, float>) {
        if (cpu::matmul_path() == cpu::MatmulPath::own && cpu::own_matmul_pays(product)) {
            cpu::matmul_own(product);
            return;
        }
    }
    cpu::matmul_in_pieces(product, int_limit);
}

// db_n += sum_m dy_mn. Each block of columns belongs to one thread, which adds the rows in ascending order in double:
// the bits depend neither on the number of threads nor on the block.
template <class T>
void bias_gradient(Stream stream, const BiasGradient<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::bias_gradient(stream, op);
        return;
    }
    constexpr i64 block = 64;
    const i64 rows = op.rows - (fault_active("bias_gradient_last_row_lost") ? 1 : 0);
    parallel_pieces(ceil_div(op.cols, block), [&](i64 piece) {
        const i64 first = piece * block;
        const i64 count = std::min(block, op.cols - first);
        double sum[block] = {};
        for (i64 i = 0; i < rows; ++i) {
            const T* row = op.d_y + i * op.ldy + first;
#pragma omp simd
            for (i64 j = 0; j < count; ++j) {
                sum[j] += static_cast<double>(row[j]);
            }
        }
        for (i64 j = 0; j < count; ++j) {
            op.d_bias[first + j] += static_cast<T>(sum[j]);
        }
    });
}

template void matmul(Stream, const Matmul<float>&);
template void matmul(Stream, const Matmul<double>&);
template void bias_gradient(Stream, const BiasGradient<float>&);
template void bias_gradient(Stream, const BiasGradient<double>&);

}  // namespace ops
}  // namespace ogrom
