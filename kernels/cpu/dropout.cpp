#include "kernels/cpu/dropout.h"

#include <algorithm>

namespace ogrom::cpu {
namespace {

constexpr int lanes = 8;                 // Philox blocks computed side by side
constexpr i64 lane_words = 4 * lanes;    // words they give
constexpr i64 chunk_words = 512;         // words a mask is made from at a time

struct Lanes {
    u32 word[4][lanes];
};

inline void multiply(const u32 (&x)[lanes], u32 multiplier, u32 (&high)[lanes], u32 (&low)[lanes]) {
    for (int l = 0; l < lanes; ++l) {
        const u64 product = u64{x[l]} * multiplier;
        high[l] = static_cast<u32>(product >> 32);
        low[l] = static_cast<u32>(product);
    }
}

inline void philox_lanes(Lanes& state, PhiloxKey key) {
    for (int round = 0; round < philox_rounds; ++round) {
        u32 high0[lanes];
        u32 low0[lanes];
        u32 high1[lanes];
        u32 low1[lanes];
        multiply(state.word[0], philox_multiplier0, high0, low0);
        multiply(state.word[2], philox_multiplier1, high1, low1);
        for (int l = 0; l < lanes; ++l) {
            state.word[0][l] = high1[l] ^ state.word[1][l] ^ key.low;
            state.word[1][l] = low1[l];
            state.word[2][l] = high0[l] ^ state.word[3][l] ^ key.high;
            state.word[3][l] = low0[l];
        }
        key.low += philox_weyl0;
        key.high += philox_weyl1;
    }
}

// 4 * lanes words from block `block` on.
inline void lane_block(u32* words, const ops::DropoutSpec& spec, u64 block) {
    Lanes state;
    for (int l = 0; l < lanes; ++l) {
        const u64 index = block + static_cast<u64>(l);
        state.word[0][l] = static_cast<u32>(index);
        state.word[1][l] = static_cast<u32>(index >> 32);
        state.word[2][l] = spec.site;
        state.word[3][l] = spec.step;
    }
    philox_lanes(state, philox_key(spec.seed));
    for (int l = 0; l < lanes; ++l) {
        for (int w = 0; w < 4; ++w) {
            words[4 * l + w] = state.word[w][l];
        }
    }
}

}  // namespace

void dropout_words(u32* words, const ops::DropoutSpec& spec, i64 first, i64 n) {
    i64 i = 0;
    for (; i < n && ((first + i) & 3) != 0; ++i) {
        words[i] = random_word(spec.seed, spec.site, spec.step, static_cast<u64>(first + i));
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
