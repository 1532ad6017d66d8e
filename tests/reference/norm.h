// Reference of the sum of squares: one plain loop in extended precision.
#pragma once
#include "kernels/common/extents.h"

namespace ogrom::reference {

template <class T>
double sum_of_squares(const T* x, i64 n) {
    long double sum = 0;
    for (i64 i = 0; i < n; ++i) {
        sum += static_cast<long double>(x[i]) * static_cast<long double>(x[i]);
    }
    return static_cast<double>(sum);
}

}  // namespace ogrom::reference
