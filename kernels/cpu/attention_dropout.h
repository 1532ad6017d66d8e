// Dropout factors of attention rows, Bytes / 8 Philox blocks at a time (four elements each); the numbers are those of
// kernels/common/rng.h. Included by the instruction-set files only: it takes constants from rng.h and calls none of its
// functions.
#pragma once
#include <immintrin.h>

#include "kernels/common/rng.h"
#include "kernels/cpu/attention_tiles.h"

namespace ogrom::cpu {
namespace {

template <int Bytes, class Word = u64>
struct PhiloxLanes {
    typedef Word Words __attribute__((vector_size(Bytes)));  // one 32-bit word in the low half of each lane
    static constexpr int lanes = Bytes / 8;

    // Full product of the low halves.
    static Words multiply(Words a, Words b) {
        if constexpr (Bytes == 64) {
            // The masked form with all lanes on: GCC 12 warns of its own undefined pass-through in the plain one.
            return (Words)_mm512_maskz_mul_epu32(0xFF, (__m512i)a, (__m512i)b);
        } else {
            return (Words)_mm256_mul_epu32((__m256i)a, (__m256i)b);
        }
    }

    static Words interleave_low(Words a, Words b) {
        if constexpr (Bytes == 64) {
            return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        } else {
            return __builtin_shufflevector(a, b, 0, 4, 1, 5);
        }
    }

    static Words interleave_high(Words a, Words b) {
        if constexpr (Bytes == 64) {
            return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
        } else {
            return __builtin_shufflevector(a, b, 2, 6, 3, 7);
        }
    }

    // The 4 * lanes words of blocks block, block + 1, ... in order of elements.
    static void draw(u64 block, u64 seed, u32 stream, u32 step, u32* out) {
        Words c0, c1;
        for (int lane = 0; lane < lanes; ++lane) {
            c0[lane] = block + static_cast<u64>(lane);
        }
        c1 = c0 >> 32;
        Words c2 = stream - Words{};
        Words c3 = step - Words{};
        Words key0 = (seed & 0xFFFFFFFFU) - Words{};
        Words key1 = (seed >> 32) - Words{};
        const Words multiplier0 = u64{philox_multiplier0} - Words{};
        const Words multiplier1 = u64{philox_multiplier1} - Words{};
        // Upper halves may hold anything: the multiplication reads low halves only.
        OGROM_UNROLL
        for (int round = 0; round < philox_rounds; ++round) {
            const Words product0 = multiply(c0, multiplier0);
            const Words product1 = multiply(c2, multiplier1);
            c0 = (product1 >> 32) ^ c1 ^ key0;
            c1 = product1;
            c2 = (product0 >> 32) ^ c3 ^ key1;
            c3 = product0;
            key0 += u64{philox_weyl0};
            key1 += u64{philox_weyl1};
        }
        constexpr u64 low_half = 0xFFFFFFFFU;
        const Words first = (c0 & low_half) | (c1 << 32);
        const Words second = (c2 & low_half) | (c3 << 32);
        const Words words[2] = {interleave_low(first, second), interleave_high(first, second)};
        __builtin_memcpy(out, words, sizeof(words));
    }
};

// factors[c] = 0 or 1 / (1 - p) of the pair (query, key + c), c < count. The result points into `buffer`, which holds
// count + 64 elements; it is not aligned.
template <class S>
const typename S::Scalar* dropout_factors(const AttentionJob<typename S::Scalar>& job, i64 head, i64 query, i64 key,
                                          i64 count, typename S::Scalar* buffer) {
    using T = typename S::Scalar;
    using Philox = PhiloxLanes<S::lanes* static_cast<int>(sizeof(T))>;
    constexpr i64 chunk = 4 * Philox::lanes;
    const auto& d = job.dropout;
    const u64 element =
        d.first + static_cast<u64>(head) * d.head_step + static_cast<u64>(query) * d.query_step + static_cast<u64>(key);
    const auto shift = static_cast<i64>(element & 3);
    const T kept = d.kept;
    for (i64 done = 0; done < shift + count; done += chunk) {
        u32 words[chunk];
        Philox::draw((element >> 2) + static_cast<u64>(done >> 2), d.seed, d.site, d.step, words);
        for (i64 c = 0; c < chunk; ++c) {
            buffer[done + c] = words[c] >= d.threshold ? kept : T(0);
        }
    }
    return buffer + shift;
}

}  // namespace
}  // namespace ogrom::cpu
