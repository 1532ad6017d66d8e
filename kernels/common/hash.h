// The weight hash's mixing function: sum mod 2^64 of mix(tensor id, global index, bits of the fp32 master) over all
// elements does not depend on the order or the layout in which elements are visited, and changes with any bit, any
// exchange of two elements and any renumbering (contracts.md, Numerics).
#pragma once
#include <bit>

#include "kernels/common/extents.h"
#include "kernels/common/host_device.h"

namespace ogrom {

// A bijection of 64-bit words in which each input bit flips each output bit with probability 1/2 (Steele, Lea, Flood
// 2014, SplitMix64's finaliser; constants of Stafford's variant 13).
OGROM_HOST_DEVICE constexpr u64 mix64(u64 x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

// Start value of a tensor, for loops over its elements.
OGROM_HOST_DEVICE constexpr u64 hash_tensor(u64 tensor_id) {
    return mix64(tensor_id + 0x9E3779B97F4A7C15ULL);
}

// Two rounds: position first, then value, so that equal values at different places and different values at equal
// places both spread over all 64 bits.
OGROM_HOST_DEVICE constexpr u64 hash_element(u64 tensor, u64 index, u32 bits) {
    return mix64(mix64(tensor + index * 0x9E3779B97F4A7C15ULL) ^ bits);
}

OGROM_HOST_DEVICE constexpr u64 mix(u64 tensor_id, u64 index, u32 bits) {
    return hash_element(hash_tensor(tensor_id), index, bits);
}

OGROM_HOST_DEVICE constexpr u64 mix(u64 tensor_id, u64 index, float value) {
    return mix(tensor_id, index, std::bit_cast<u32>(value));
}

}  // namespace ogrom
