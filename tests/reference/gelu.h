// Reference of tanh-GELU and its derivative, in double, as the formula is printed.
#pragma once
#include <cmath>

namespace ogrom::reference {

inline double gelu(double u) {
    const double k = std::sqrt(2 / 3.14159265358979323846) * (u + 0.044715 * u * u * u);
    return u / 2 * (1 + std::tanh(k));
}

inline double gelu_derivative(double u) {
    const double root = std::sqrt(2 / 3.14159265358979323846);
    const double t = std::tanh(root * (u + 0.044715 * u * u * u));
    return (1 + t) / 2 + u / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * u * u);
}

}  // namespace ogrom::reference
