// Sum of doubles without rounding, so that no order, grouping or number of ranks changes a bit of it (a "long
// accumulator": Kulisch 1981; Demmel & Nguyen 2015 give the reason). A fixed-point number of 32-bit digits, each kept
// in a 64-bit word that also holds its carries:
//   sum = sum_k limb[k] 2^(32 k - 320),  k < digits;  limb[nonfinite] = addends that were NaN, Inf or >= 2^320
// Bits of an addend below 2^-320 are cut off (towards 0): squares of fp32 numbers and their sums lose none. Ranks add
// their words as integers: normalise() on each, an elementwise 64-bit sum over up to 2^20 ranks, value() on the result.
// Integer operations only: the same bits on every machine and device.
#pragma once
#include <array>
#include <bit>

#include "kernels/common/extents.h"
#include "kernels/common/host_device.h"

namespace ogrom {

struct ExactSum {
    static constexpr int digits = 22;  // 2^-320 .. 2^384: 2^63 addends of 2^320 do not reach the top
    static constexpr int nonfinite = digits;
    static constexpr int words = digits + 1;

    std::array<i64, words> limb{};

    OGROM_HOST_DEVICE constexpr void add(double x) {
        const u64 bits = std::bit_cast<u64>(x);
        const auto exponent = static_cast<int>((bits >> 52) & 0x7FF);
        if (exponent >= lowest + 1023 + 640) {
            ++limb[nonfinite];
            return;
        }
        u64 mantissa = (bits & 0x000FFFFFFFFFFFFFULL) | (exponent > 0 ? 0x0010000000000000ULL : 0);
        // x = mantissa 2^(place + lowest), place counted from the lowest bit kept.
        int place = (exponent > 0 ? exponent : 1) - 1075 - lowest;
        if (place < 0) {
            mantissa = place > -64 ? mantissa >> -place : 0;
            place = 0;
        }
        const int k = place / 32;
        const int shift = place % 32;
        const u64 low = (mantissa & mask) << shift;
        const u64 high = ((mantissa >> 32) << shift) + (low >> 32);
        const i64 sign = bits >> 63 != 0 ? -1 : 1;
        limb[k] += sign * static_cast<i64>(low & mask);
        limb[k + 1] += sign * static_cast<i64>(high & mask);
        limb[k + 2] += sign * static_cast<i64>(high >> 32);
        if (++unsettled_ == most_unsettled) {
            normalise();
        }
    }

    OGROM_HOST_DEVICE constexpr void add(const ExactSum& other) {
        ExactSum settled = other;
        settled.normalise();
        normalise();
        for (int k = 0; k < words; ++k) {
            limb[k] += settled.limb[k];
        }
    }

    // Moves the carries up: every digit but the top one, which has the sign, comes to lie in [0, 2^32).
    OGROM_HOST_DEVICE constexpr void normalise() {
        for (int k = 0; k + 1 < digits; ++k) {
            const i64 carry = limb[k] >> 32;
            limb[k] -= carry * (i64{1} << 32);
            limb[k + 1] += carry;
        }
        unsettled_ = 0;
    }

    // The sum rounded to the nearest double (ties to even); NaN where an addend could not be held.
    [[nodiscard]] OGROM_HOST_DEVICE constexpr double value() const {
        if (limb[nonfinite] != 0) {
            return std::bit_cast<double>(0x7FF8000000000000ULL);
        }
        ExactSum sum = *this;
        sum.normalise();
        u64 sign = 0;
        if (sum.limb[digits - 1] < 0) {
            sign = u64{1} << 63;
            for (int k = 0; k < digits; ++k) {
                sum.limb[k] = -sum.limb[k];
            }
            sum.normalise();
        }
        return std::bit_cast<double>(sign | sum.rounded());
    }

private:
    static constexpr int lowest = -320;  // exponent of the lowest bit
    static constexpr u64 mask = 0xFFFFFFFFU;
    static constexpr i64 most_unsettled = i64{1} << 30;  // addends a word can take: below 2^32 each

    // Bits of the double nearest to the number, which is >= 0 and normalised.
    [[nodiscard]] OGROM_HOST_DEVICE constexpr u64 rounded() const {
        int top = digits - 1;
        while (top > 0 && limb[top] == 0) {
            --top;
        }
        if (limb[top] == 0) {
            return 0;
        }
        const u64 next = top > 0 ? static_cast<u64>(limb[top - 1]) : 0;
        const u64 third = top > 1 ? static_cast<u64>(limb[top - 2]) : 0;
        // The 64 bits from the highest one on, then whether anything follows.
        const int zeros = std::countl_zero(static_cast<u32>(limb[top]));
        const u64 head = ((static_cast<u64>(limb[top]) << 32 | next) << zeros) | (third >> (32 - zeros));
        u64 below = third & ((u64{1} << (32 - zeros)) - 1);
        for (int k = 0; k + 2 < top; ++k) {
            below |= static_cast<u64>(limb[k]);
        }
        const u64 fraction = (head >> 11) & 0x000FFFFFFFFFFFFFULL;
        const u64 rest = head & 0x7FF;
        const bool up = rest > 0x400 || (rest == 0x400 && (below != 0 || (fraction & 1) != 0));
        const int exponent = 32 * top + 31 - zeros + lowest + 1023;
        return ((static_cast<u64>(exponent) << 52) | fraction) + (up ? 1 : 0);  // a carry raises the exponent
    }

    i64 unsettled_ = 0;
};

}  // namespace ogrom
