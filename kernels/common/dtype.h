// Storage types of tensors and their sizes. The CPU backend computes in fp32 or fp64, the CUDA backend in bf16 and fp16
// as well; fp8 has names and is refused by name until it exists.
#pragma once
#include <string_view>
#include <type_traits>

#include "kernels/common/bf16.h"
#include "kernels/common/extents.h"
#include "kernels/common/fp16.h"

namespace ogrom {

// GCC 12 takes scoped enumerators named like our integer types for shadowing; they are scoped, so nothing is hidden.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
enum class Dtype { fp32, fp64, bf16, fp16, fp8_e4m3, fp8_e5m2, i32, i64, u16, u64 };
#pragma GCC diagnostic pop

constexpr i64 size_of(Dtype type) {
    switch (type) {
        case Dtype::fp64:
        case Dtype::i64:
        case Dtype::u64:
            return 8;
        case Dtype::fp32:
        case Dtype::i32:
            return 4;
        case Dtype::bf16:
        case Dtype::fp16:
        case Dtype::u16:
            return 2;
        case Dtype::fp8_e4m3:
        case Dtype::fp8_e5m2:
            return 1;
    }
    return 0;
}

constexpr std::string_view name_of(Dtype type) {
    switch (type) {
        case Dtype::fp32:
            return "fp32";
        case Dtype::fp64:
            return "fp64";
        case Dtype::bf16:
            return "bf16";
        case Dtype::fp16:
            return "fp16";
        case Dtype::fp8_e4m3:
            return "fp8_e4m3";
        case Dtype::fp8_e5m2:
            return "fp8_e5m2";
        case Dtype::i32:
            return "i32";
        case Dtype::i64:
            return "i64";
        case Dtype::u16:
            return "u16";
        case Dtype::u64:
            return "u64";
    }
    return "?";
}

template <class T>
constexpr Dtype dtype_of();
template <>
constexpr Dtype dtype_of<float>() {
    return Dtype::fp32;
}
template <>
constexpr Dtype dtype_of<double>() {
    return Dtype::fp64;
}
template <>
constexpr Dtype dtype_of<Bf16>() {
    return Dtype::bf16;
}
template <>
constexpr Dtype dtype_of<Fp16>() {
    return Dtype::fp16;
}
template <>
constexpr Dtype dtype_of<std::int32_t>() {
    return Dtype::i32;
}
template <>
constexpr Dtype dtype_of<i64>() {
    return Dtype::i64;
}
template <>
constexpr Dtype dtype_of<u64>() {
    return Dtype::u64;
}

// The types of 16 bits, which numbers are kept in and never computed in.
template <class T>
inline constexpr bool is_16_bit = std::is_same_v<T, Bf16> || std::is_same_v<T, Fp16>;
constexpr bool has_16_bits(Dtype type) {
    return type == Dtype::bf16 || type == Dtype::fp16;
}

// Beside tensors stored in T: what gradients, masters and moments are kept in, and what rows' statistics and scalars
// are. 16 bits are too few for either.
template <class T>
using GradientOf = std::conditional_t<is_16_bit<T>, float, T>;
template <class T>
using StatisticOf = std::conditional_t<is_16_bit<T>, float, T>;

}  // namespace ogrom
