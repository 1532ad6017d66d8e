// Arithmetic of tanh-GELU on the device (kernels/ops/gelu.h). Beside 16 bits the hardware's exponential and quotient
// are exact enough (2^-21 against 2^-9 or 2^-12) and let the pass run at memory speed.
#pragma once
#include "kernels/cuda/pack.cuh"

namespace ogrom::cuda {

template <class T>
__device__ Math<T> exponential_of(Math<T> x) {
    if constexpr (is_16_bit<T>) {
        return __expf(x);
    } else {
        return exp(x);
    }
}

template <class T>
__device__ Math<T> quotient_of(Math<T> a, Math<T> b) {
    if constexpr (is_16_bit<T>) {
        return __fdividef(a, b);
    } else {
        return a / b;
    }
}

struct Gelu {
    static constexpr double sqrt_2_over_pi = 0.79788456080286535588;
    static constexpr double cubic = 0.044715;

    // e^-2k, k = sqrt(2/pi) (u + 0.044715 u^3), as in kernels/cpu/gelu.cpp.
    template <class T>
    __device__ static Math<T> exponential(Math<T> u) {
        using M = Math<T>;
        return exponential_of<T>(static_cast<M>(-2 * sqrt_2_over_pi) * u * (M(1) + static_cast<M>(cubic) * u * u));
    }

    template <class T>
    __device__ static Math<T> value(Math<T> u) {
        return quotient_of<T>(u, Math<T>(1) + exponential<T>(u));
    }

    // s + u s (1 - s) 2 dk/du, s = 1 / (1 + e^-2k); beyond |u| = 9.9 the value at 9.9. A NaN passes the comparisons.
    template <class T>
    __device__ static Math<T> derivative(Math<T> u) {
        using M = Math<T>;
        constexpr M most = M(9.9);
        const M v = u > most ? most : (u < -most ? -most : u);
        const M e = exponential<T>(v);
        const M s = quotient_of<T>(M(1), M(1) + e);
        const M slope = static_cast<M>(2 * sqrt_2_over_pi) * (M(1) + static_cast<M>(3 * cubic) * v * v);
        return s + v * slope * (s * (s * e));
    }
};

}  // namespace ogrom::cuda
