#include "kernels/cpu/dropout.h"

#include <algorithm>
#include <immintrin.h>

namespace ogrom::cpu {
namespace {

// Four Philox blocks side by side, a 32-bit word in the low half of each 64-bit lane; the upper halves may hold
// anything, as the multiplication reads low halves only.
struct Blocks {
    __m256i word[4];
};
constexpr int groups = 2;                   // Blocks in flight, so that one hides the other's latency
constexpr i64 lane_words = 4 * 4 * groups;  // words they give
constexpr i64 chunk_words = 512;            // words a mask is made from at a time

inline __m256i broadcast(u64 value) {
    return _mm256_set1_epi64x(static_cast<i64>(value));
}

inline void philox_round(Blocks& b, __m256i key0, __m256i key1) {
    const __m256i product0 = _mm256_mul_epu32(b.word[0], broadcast(philox_multiplier0));
    const __m256i product1 = _mm256_mul_epu32(b.word[2], broadcast(philox_multiplier1));
    b.word[0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), b.word[1]), key0);
    b.word[1] = product1;
    b.word[2] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), b.word[3]), key1);
    b.word[3] = product0;
}

// Writes the 16 words in order of elements.
inline void store(const Blocks& b, u32* words) {
    const __m256i first = _mm256_blend_epi32(b.word[0], _mm256_slli_epi64(b.word[1], 32), 0xAA);
    const __m256i second = _mm256_blend_epi32(b.word[2], _mm256_slli_epi64(b.word[3], 32), 0xAA);
    const __m256i even = _mm256_unpacklo_epi64(first, second);  // blocks 0 and 2
    const __m256i odd = _mm256_unpackhi_epi64(first, second);   // blocks 1 and 3
    auto* out = reinterpret_cast<__m256i*>(words);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}

// lane_words words from block `block` on.
inline void lane_block(u32* words, const ops::DropoutSpec& spec, u64 block) {
    Blocks state[groups];
    for (int g = 0; g < groups; ++g) {
        const auto first = static_cast<i64>(block) + 4 * g;
        const __m256i index = _mm256_set_epi64x(first + 3, first + 2, first + 1, first);
        state[g] = {{index, _mm256_srli_epi64(index, 32), broadcast(spec.site), broadcast(ops::dropout_step(spec))}};
    }
    PhiloxKey key = philox_key(spec.seed);
#pragma GCC unroll 10
    for (int round = 0; round < philox_rounds; ++round) {
        const __m256i key0 = broadcast(key.low);
        const __m256i key1 = broadcast(key.high);
        for (Blocks& blocks : state) {
            philox_round(blocks, key0, key1);
        }
        key.low += philox_weyl0;
        key.high += philox_weyl1;
    }
    for (int g = 0; g < groups; ++g) {
        store(state[g], words + 16 * g);
    }
}

}  // namespace

void dropout_words(u32* words, const ops::DropoutSpec& spec, i64 first, i64 n) {
    i64 i = 0;
    for (; i < n && ((first + i) & 3) != 0; ++i) {
        words[i] = random_word(spec.seed, spec.site, ops::dropout_step(spec), static_cast<u64>(first + i));
    }
    for (; i + lane_words <= n; i += lane_words) {
        lane_block(words + i, spec, static_cast<u64>(first + i) >> 2);
    }
    if (i < n) {
        u32 rest[lane_words];
        lane_block(rest, spec, static_cast<u64>(first + i) >> 2);
        std::copy_n(rest, n - i, words + i);
    }
}

template <class T>
void dropout_factors(T* factors, const ops::DropoutSpec& spec, i64 first, i64 n) {
    const u32 threshold = dropout_threshold(spec.p);
    const T kept = static_cast<T>(1.0 / (1.0 - spec.p));
    u32 words[chunk_words];
    for (i64 start = 0; start < n; start += chunk_words) {
        const i64 count = std::min(chunk_words, n - start);
        dropout_words(words, spec, first + start, count);
        for (i64 i = 0; i < count; ++i) {
            factors[start + i] = words[i] >= threshold ? kept : T{0};
        }
    }
}

template void dropout_factors<float>(float*, const ops::DropoutSpec&, i64, i64);
template void dropout_factors<double>(double*, const ops::DropoutSpec&, i64, i64);

}  // namespace ogrom::cpu
