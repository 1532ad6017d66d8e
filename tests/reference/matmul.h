// Reference product and bias sum: plain loops, sums in double, ascending order.
#pragma once
#include "kernels/ops/matmul.h"

namespace ogrom::reference {

// op.y in double precision; `before` holds the values of y that beta multiplies.
template <class T>
double matmul_element(const ops::Matmul<T>& op, const T* before, i64 i, i64 j) {
    double sum = 0;
    for (i64 l = 0; l < op.k; ++l) {
        const T a = op.transpose_a == ops::Transpose::yes ? op.a[l * op.lda + i] : op.a[i * op.lda + l];
        const T b = op.transpose_b == ops::Transpose::yes ? op.b[j * op.ldb + l] : op.b[l * op.ldb + j];
        sum += static_cast<double>(a) * static_cast<double>(b);
    }
    const double scaled = static_cast<double>(op.alpha) * sum;
    return op.beta == T(0) ? scaled
                           : scaled + static_cast<double>(op.beta) * static_cast<double>(before[i * op.ldy + j]);
}

template <class T>
double bias_gradient_element(const ops::BiasGradient<T>& op, T before, i64 column) {
    double sum = static_cast<double>(before);
    for (i64 i = 0; i < op.rows; ++i) {
        sum += static_cast<double>(op.d_y[i * op.ldy + column]);
    }
    return sum;
}

}  // namespace ogrom::reference
