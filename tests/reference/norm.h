// Reference of the sum of squares: one plain loop in extended precision. Its roundings are carried along (Kahan 1965),
// as a million of them, all on one side, would be more than the error that is looked for.
#pragma once
#include "kernels/common/extents.h"

namespace ogrom::reference {

template <class T>
long double long_sum_of_squares(const T* x, i64 n) {
    long double sum = 0;
    long double lost = 0;
    for (i64 i = 0; i < n; ++i) {
        const long double term = static_cast<long double>(x[i]) * static_cast<long double>(x[i]) - lost;
        const long double next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    return sum;
}

template <class T>
double sum_of_squares(const T* x, i64 n) {
    return static_cast<double>(long_sum_of_squares(x, n));
}

}  // namespace ogrom::reference
