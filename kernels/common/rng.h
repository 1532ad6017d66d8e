// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as
// 1, 2, 3"). A number is a function of (seed, stream, step, index) only: no state, the same under every layout.
//   key     = {seed bits 0..31, seed bits 32..63}
//   counter = {index/4 bits 0..31, index/4 bits 32..63, stream, step}; element `index` takes word index % 4
//   stream  = dropout site, tensor id, or the like; step = optimizer step, or one of the domains below, which no
//             optimizer step reaches, so that initial weights, data order and sampling never share numbers with dropout
//   uniform = word * 2^-32 in [0, 1): all 32 bits, exact in double
//   normal  = inverse normal distribution of (word + 1/2) * 2^-32: within +-6.34, never infinite
// No libm call; every a*b+c is an explicit fused multiply-add, so no compiler has anything left to contract and the
// bits agree between compilers, instruction sets and devices.
#pragma once
#include <bit>

#include "kernels/common/extents.h"
#include "kernels/common/host_device.h"

namespace ogrom {

inline constexpr u32 rng_domain_weights = 0xFFFFFFFFU;   // stream = tensor id
inline constexpr u32 rng_domain_data = 0xFFFFFFFEU;      // stream = epoch
inline constexpr u32 rng_domain_sampling = 0xFFFFFFFDU;  // stream = 0, index = generated token

struct PhiloxKey {
    u32 low, high;
};
struct PhiloxBlock {
    u32 word[4];
};

inline constexpr u32 philox_multiplier0 = 0xD2511F53U;
inline constexpr u32 philox_multiplier1 = 0xCD9E8D57U;
inline constexpr u32 philox_weyl0 = 0x9E3779B9U;
inline constexpr u32 philox_weyl1 = 0xBB67AE85U;
inline constexpr int philox_rounds = 10;

OGROM_HOST_DEVICE constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
    for (int round = 0; round < philox_rounds; ++round) {
        const u64 product0 = u64{philox_multiplier0} * counter.word[0];
        const u64 product1 = u64{philox_multiplier1} * counter.word[2];
        counter = {{static_cast<u32>(product1 >> 32) ^ counter.word[1] ^ key.low, static_cast<u32>(product1),
                    static_cast<u32>(product0 >> 32) ^ counter.word[3] ^ key.high, static_cast<u32>(product0)}};
        key.low += philox_weyl0;
        key.high += philox_weyl1;
    }
    return counter;
}

OGROM_HOST_DEVICE constexpr PhiloxKey philox_key(u64 seed) {
    return {static_cast<u32>(seed), static_cast<u32>(seed >> 32)};
}

OGROM_HOST_DEVICE constexpr PhiloxBlock random_block(u64 seed, u32 stream, u32 step, u64 block) {
    return philox({{static_cast<u32>(block), static_cast<u32>(block >> 32), stream, step}}, philox_key(seed));
}

// 32 random bits of element `index`.
OGROM_HOST_DEVICE constexpr u32 random_word(u64 seed, u32 stream, u32 step, u64 index) {
    return random_block(seed, stream, step, index >> 2).word[index & 3];
}

OGROM_HOST_DEVICE constexpr double uniform(u32 word) {
    return static_cast<double>(word) * 0x1p-32;
}

// 64 random bits, for shuffles: words 2i and 2i+1 of the stream.
OGROM_HOST_DEVICE constexpr u64 random_u64(u64 seed, u32 stream, u32 step, u64 index) {
    const PhiloxBlock block = random_block(seed, stream, step, index >> 1);
    const u64 low = block.word[2 * (index & 1)];
    return low | (u64{block.word[2 * (index & 1) + 1]} << 32);
}

// Dropout's test uniform(word) >= p as an integer compare: word >= ceil(p 2^32). 0 <= p < 1; the largest threshold is
// 2^32 - 1, so at p within 2^-32 of 1 one word in 2^32 is still kept.
OGROM_HOST_DEVICE constexpr u32 dropout_threshold(double p) {
    const double scaled = p * 0x1p32;
    if (scaled >= 4294967295.0) {
        return 0xFFFFFFFFU;
    }
    const u32 floor = static_cast<u32>(scaled);
    return static_cast<double>(floor) < scaled ? floor + 1 : floor;
}

namespace rng_detail {

template <int N>
OGROM_HOST_DEVICE inline double polynomial(const double (&coefficient)[N], double x) {
    double value = coefficient[N - 1];
    for (int i = N - 2; i >= 0; --i) {
        value = __builtin_fma(value, x, coefficient[i]);
    }
    return value;
}

// Natural logarithm of a normal positive double, within 2 ulp: x = 2^e m, m in [sqrt(1/2), sqrt 2),
// log m = 2 artanh((m - 1) / (m + 1)) by its series.
OGROM_HOST_DEVICE inline double portable_log(double x) {
    constexpr double series[] = {1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                                 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
    const u64 bits = std::bit_cast<u64>(x);
    i64 exponent = static_cast<i64>(bits >> 52) - 1023;
    double mantissa = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFULL) | 0x3FF0000000000000ULL);
    if (mantissa > 1.4142135623730951) {
        mantissa *= 0.5;
        exponent += 1;
    }
    const double s = (mantissa - 1.0) / (mantissa + 1.0);
    const double log_mantissa = (s + s) * polynomial(series, s * s);
    return __builtin_fma(static_cast<double>(exponent), 0.69314718055994530942, log_mantissa);
}

// Tail of the inverse normal distribution: quantile of probability `tail` <= 0.075, as a positive number.
OGROM_HOST_DEVICE inline double normal_tail(double tail) {
    constexpr double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                            3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                            2.27238449892691845833e-2, 7.74545014278341407640e-4};
    constexpr double d[] = {1.0,
                            2.05319162663775882187e0,
                            1.67638483018380384940e0,
                            6.89767334985100004550e-1,
                            1.48103976427480074590e-1,
                            1.51986665636164571966e-2,
                            5.47593808499534494600e-4,
                            1.05075007164441684324e-9};
    constexpr double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                            2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                            2.71155556874348757815e-5, 2.01033439929228813265e-7};
    constexpr double f[] = {1.0,
                            5.99832206555887937690e-1,
                            1.36929880922735805310e-1,
                            1.48753612908506148525e-2,
                            7.86869131145613259100e-4,
                            1.84631831751005468180e-5,
                            1.42151175831644588870e-7,
                            2.04426310338993978564e-15};
    const double r = __builtin_sqrt(-portable_log(tail));
    if (r <= 5.0) {
        return polynomial(c, r - 1.6) / polynomial(d, r - 1.6);
    }
    return polynomial(e, r - 5.0) / polynomial(f, r - 5.0);
}

}  // namespace rng_detail

// Inverse of the normal distribution function for 0 < probability < 1, relative error about 1e-15 (Wichura 1988,
// algorithm AS 241, PPND16).
OGROM_HOST_DEVICE inline double inverse_normal(double probability) {
    constexpr double a[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                            1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                            3.3430575583588128105e4, 2.5090809287301226727e3};
    constexpr double b[] = {1.0,
                            4.2313330701600911252e1,
                            6.8718700749205790830e2,
                            5.3941960214247511077e3,
                            2.1213794301586595867e4,
                            3.9307895800092710610e4,
                            2.8729085735721942674e4,
                            5.2264952788528545610e3};
    const double q = probability - 0.5;
    if (q <= 0.425 && q >= -0.425) {
        const double r = __builtin_fma(-q, q, 0.180625);
        return q * (rng_detail::polynomial(a, r) / rng_detail::polynomial(b, r));
    }
    return q < 0 ? -rng_detail::normal_tail(probability) : rng_detail::normal_tail(1.0 - probability);
}

OGROM_HOST_DEVICE inline double normal_of(u32 word) {
    return inverse_normal((static_cast<double>(word) + 0.5) * 0x1p-32);
}

// Standard normal number of element `index` of tensor `tensor_id`.
OGROM_HOST_DEVICE inline double normal_at(u64 seed, u32 tensor_id, u64 index) {
    return normal_of(random_word(seed, tensor_id, rng_domain_weights, index));
}

// The same numbers four at a time: elements 4 block .. 4 block + 3 (one Philox call instead of four).
OGROM_HOST_DEVICE inline void normals_at(u64 seed, u32 tensor_id, u64 block, double (&out)[4]) {
    const PhiloxBlock words = random_block(seed, tensor_id, rng_domain_weights, block);
    for (int i = 0; i < 4; ++i) {
        out[i] = normal_of(words.word[i]);
    }
}

}  // namespace ogrom
