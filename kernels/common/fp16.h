// The 16-bit storage type of IEEE 754 (binary16): 11 significant bits, from 2^-24 (subnormal) to 65504. Numbers are
// kept in it and computed in float. Same layout as __half.
#pragma once
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/common/extents.h"
#include "kernels/common/host_device.h"

namespace ogrom {

struct Fp16 {
    std::uint16_t bits;

    Fp16() = default;
    OGROM_HOST_DEVICE explicit Fp16(float value);
    OGROM_HOST_DEVICE explicit operator float() const;
};
static_assert(sizeof(Fp16) == 2 && std::is_trivially_copyable_v<Fp16>);

// Exact.
OGROM_HOST_DEVICE inline float to_float(Fp16 value) {
#ifdef __CUDA_ARCH__
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(value.bits));
    return out;
#else
    const u32 sign = (value.bits & 0x8000U) << 16, exponent = value.bits >> 10 & 0x1FU, fraction = value.bits & 0x3FFU;
    if (exponent == 0) {  // zero and subnormal numbers: units of 2^-24
        return std::bit_cast<float>(std::bit_cast<u32>(static_cast<float>(fraction) * 0x1p-24F) | sign);
    }
    const u32 wide = exponent == 0x1FU ? 0xFFU : exponent + (127 - 15);
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
#endif
}

// To the nearest, ties to even; from 65520 on Inf. A NaN stays one (quiet, with the upper bits of its payload on the
// host).
OGROM_HOST_DEVICE inline Fp16 to_fp16(float value) {
    Fp16 out;
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
#else
    const u32 bits = std::bit_cast<u32>(value), magnitude = bits & 0x7FFFFFFFU;
    u32 rounded = 0;
    if (magnitude > 0x7F800000U) {  // NaN
        rounded = 0x7E00U | (magnitude >> 13 & 0x3FFU);
    } else if (magnitude >= 0x477FF000U) {  // 65520
        rounded = 0x7C00U;
    } else if (magnitude >= 0x38800000U) {  // 2^-14: normal
        const u32 rebiased = magnitude - ((127U - 15U) << 23);
        rounded = (rebiased + 0xFFFU + (rebiased >> 13 & 1U)) >> 13;
    } else {  // beside 1/2 a float's last place is the unit of subnormal numbers, 2^-24
        rounded = std::bit_cast<u32>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
    }
    out.bits = static_cast<std::uint16_t>((bits >> 16 & 0x8000U) | rounded);
#endif
    return out;
}

OGROM_HOST_DEVICE inline Fp16::Fp16(float value) : bits(to_fp16(value).bits) {}

OGROM_HOST_DEVICE inline Fp16::operator float() const {
    return to_float(*this);
}

}  // namespace ogrom
