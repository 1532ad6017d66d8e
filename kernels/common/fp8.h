// The 8-bit storage types of matrix products (OCP 8-bit Floating Point Specification, 2023; Micikevicius et al. 2022):
//   fp8_e4m3   3 bits of mantissa, largest 448, no infinity, one NaN of either sign
//   fp8_e5m2   2 bits of mantissa, largest 57344, infinities and NaNs as IEEE has them
// A tensor stands in them with one factor: code = to_fp8(x factor), x ~ from_fp8(code) inverse.
#pragma once
#include <bit>
#include <cstdint>

#include "kernels/common/dtype.h"
#include "kernels/common/extents.h"
#include "kernels/common/host_device.h"

namespace ogrom {

using Fp8Code = std::uint8_t;

constexpr bool is_fp8(Dtype type) {
    return type == Dtype::fp8_e4m3 || type == Dtype::fp8_e5m2;
}

// What differs between the two.
struct Fp8Format {
    int mantissa_bits, bias;
    float largest;
    Fp8Code largest_code;
};
OGROM_HOST_DEVICE constexpr Fp8Format fp8_format(Dtype type) {
    return type == Dtype::fp8_e4m3 ? Fp8Format{3, 7, 448.0F, 0x7E} : Fp8Format{2, 15, 57344.0F, 0x7B};
}

// To the nearest, ties to even; beyond the largest finite number that number, an infinity too (as cvt.satfinite of a
// GPU does). A NaN becomes 0x7F.
OGROM_HOST_DEVICE inline Fp8Code to_fp8(float value, Dtype type) {
    const Fp8Format format = fp8_format(type);
    const u32 bits = std::bit_cast<u32>(value);
    const u32 size = bits & 0x7FFFFFFFU;
    if (size > 0x7F800000U) {
        return 0x7F;
    }
    const int dropped = 23 - format.mantissa_bits;
    const u32 smallest_normal = static_cast<u32>(128 - format.bias) << 23;
    u32 code = 0;
    if (size < smallest_normal) {
        // The sum with a power of two has the spacing of the subnormal codes and rounds as wanted.
        const float shift = std::bit_cast<float>(static_cast<u32>(151 - format.bias - format.mantissa_bits) << 23);
        code = std::bit_cast<u32>(std::bit_cast<float>(size) + shift) - std::bit_cast<u32>(shift);
    } else {
        const u32 rounded = size + (1U << (dropped - 1)) - 1 + ((size >> dropped) & 1U);
        code = (rounded >> dropped) - (static_cast<u32>(127 - format.bias) << format.mantissa_bits);
    }
    code = code < format.largest_code ? code : format.largest_code;
    return static_cast<Fp8Code>(code | ((bits >> 24) & 0x80U));
}

OGROM_HOST_DEVICE inline float from_fp8(Fp8Code code, Dtype type) {
    const Fp8Format format = fp8_format(type);
    const u32 size = code & 0x7FU;
    const u32 sign = static_cast<u32>(code & 0x80) << 24;
    if (size > format.largest_code) {
        const bool infinite = type == Dtype::fp8_e5m2 && size == 0x7C;
        return std::bit_cast<float>(sign | (infinite ? 0x7F800000U : 0x7FC00000U));
    }
    const u32 exponent = size >> format.mantissa_bits;
    if (exponent == 0) {
        const float step = std::bit_cast<float>(static_cast<u32>(128 - format.bias - format.mantissa_bits) << 23);
        return std::bit_cast<float>(sign | std::bit_cast<u32>(static_cast<float>(size) * step));
    }
    const u32 rebased = size + (static_cast<u32>(127 - format.bias) << format.mantissa_bits);
    return std::bit_cast<float>(sign | rebased << (23 - format.mantissa_bits));
}

// The scale of one tensor, kept where the kernels run. 16 bytes: `inverse` is read by products through its address.
struct alignas(16) Fp8Scale {
    float inverse;  // of the factor: what products multiply by
    float largest;  // largest absolute value of the tensor; NaN or infinite where the tensor has such an element
};

// The factor for a tensor of that largest absolute value: the format's largest number stands for it. 1 where the tensor
// is all zeros, at most 2^120, so that factor and inverse are normal numbers, and NaN where it is NaN or infinite:
// every product of such a tensor is NaN, which the step's check of gradients sees.
OGROM_HOST_DEVICE inline float fp8_factor(float largest, Dtype type) {
    constexpr float most = 0x1p120F;
    if (largest == 0) {
        return 1;
    }
    if (!(largest <= 3.402823466e38F)) {
        return std::bit_cast<float>(0x7FC00000U);
    }
    const float factor = fp8_format(type).largest / largest;
    return factor < most ? factor : most;
}

}  // namespace ogrom
