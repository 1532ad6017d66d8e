// Elementary functions that a compiler can vectorise: no branch, no table, no call. NaN passes through.
#pragma once
#include <bit>
#include <cmath>

#include "kernels/common/extents.h"

namespace ogrom {

namespace fastmath_detail {

inline constexpr float shift = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
inline constexpr float lowest = -87.3365402F;
inline constexpr float highest = 88.7228317F;

// e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2, e^r by a polynomial of degree 6 (Cephes, Moshier 1984).
// `shifted` = n + shift: its low bits are n.
inline float reduced_exp(float x, float& shifted) {
    shifted = x * 1.44269504F + shift;
    const float n = shifted - shift;
    const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    return p * (r * r) + r + 1.0F;
}

}  // namespace fastmath_detail

// e^x in fp32 within 2 ulp where the result is a normal number; below that exactly 0 (x < -87.3365), above the largest
// number +Inf (x > 88.7228).
inline float exp_fast(float x) {
    using namespace fastmath_detail;
    // Compared in this order a NaN stays a NaN.
    const float bounded = x < lowest ? lowest : (x > highest ? highest : x);
    float shifted = 0;
    const float p = reduced_exp(bounded, shifted);
    // 2^n in two halves, as n = 128 has no single power.
    const u32 exponent = std::bit_cast<u32>(shifted) - std::bit_cast<u32>(shift) + 254U;
    const float half1 = std::bit_cast<float>((exponent >> 1) << 23);
    const float half2 = std::bit_cast<float>((exponent - (exponent >> 1)) << 23);
    const float above = x > highest ? std::bit_cast<float>(0x7F800000U) : p * half1 * half2;
    return x < lowest ? 0.0F : above;
}

// The same for x <= 0 or NaN (softmax: logit minus the largest), two thirds of the work.
inline float exp_nonpositive(float x) {
    using namespace fastmath_detail;
    const float bounded = x < lowest ? lowest : x;
    float shifted = 0;
    const float p = reduced_exp(bounded, shifted);
    const float power = std::bit_cast<float>((std::bit_cast<u32>(shifted) - std::bit_cast<u32>(shift) + 127U) << 23);
    return x < lowest ? 0.0F : p * power;
}

inline double exp_nonpositive(double x) {
    return std::exp(x);
}
inline double exp_fast(double x) {
    return std::exp(x);
}

}  // namespace ogrom
