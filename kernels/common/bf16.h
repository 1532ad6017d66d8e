// The 16-bit storage type bfloat16: the upper half of a float, with its exponent and 8 significant bits. Numbers are
// kept in it and computed in float. Same layout as __nv_bfloat16.
#pragma once
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/common/extents.h"
#include "kernels/common/host_device.h"

namespace ogrom {

struct Bf16 {
    std::uint16_t bits;

    Bf16() = default;
    OGROM_HOST_DEVICE explicit Bf16(float value);
    OGROM_HOST_DEVICE explicit operator float() const;
};
static_assert(sizeof(Bf16) == 2 && std::is_trivially_copyable_v<Bf16>);

OGROM_HOST_DEVICE inline float to_float(Bf16 value) {
    return std::bit_cast<float>(static_cast<u32>(value.bits) << 16);
}

// To the nearest, ties to even; beyond the largest finite number Inf. A NaN stays one (quiet, with the upper bits of
// its payload on the host).
OGROM_HOST_DEVICE inline Bf16 to_bf16(float value) {
    Bf16 out;
#ifdef __CUDA_ARCH__
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
#else
    const u32 bits = std::bit_cast<u32>(value);
    const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    const u32 rounded = nan ? bits | 0x00400000U : bits + 0x7FFFU + ((bits >> 16) & 1U);
    out.bits = static_cast<std::uint16_t>(rounded >> 16);
#endif
    return out;
}

// A double cut to a float whose last bit is set where anything was cut off, so that to_bf16 (or to_fp16) of it rounds
// once only.
OGROM_HOST_DEVICE inline float odd_rounded(double value) {
    const auto near = static_cast<float>(value);
    const auto back = static_cast<double>(near);
    if (back == value || value != value || near - near != 0.0F) {
        return near;  // exact, NaN, or beyond the range
    }
    u32 bits = std::bit_cast<u32>(near);
    if ((back > value) == (value > 0)) {
        --bits;  // towards 0
    }
    return std::bit_cast<float>(bits | 1U);
}

OGROM_HOST_DEVICE inline Bf16::Bf16(float value) : bits(to_bf16(value).bits) {}

OGROM_HOST_DEVICE inline Bf16::operator float() const {
    return to_float(*this);
}

}  // namespace ogrom
