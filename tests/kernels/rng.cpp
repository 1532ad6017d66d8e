#include "kernels/common/rng.h"

#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "kernels/common/hash.h"
#include "kernels/cpu/dropout.h"

#include "tests/kernels/support.h"

namespace ogrom {
namespace {

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Rng, PhiloxKnownAnswers) {
    const PhiloxBlock zero = philox({{0, 0, 0, 0}}, {0, 0});
    const PhiloxBlock ones = philox({{~0U, ~0U, ~0U, ~0U}}, {~0U, ~0U});
    const PhiloxBlock pi = philox({{0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}}, {0xa4093822U, 0x299f31d0U});
    const std::array<u32, 4> want_zero{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U};
    const std::array<u32, 4> want_ones{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU};
    const std::array<u32, 4> want_pi{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U};
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(zero.word[i], want_zero[i]);
        EXPECT_EQ(ones.word[i], want_ones[i]);
        EXPECT_EQ(pi.word[i], want_pi[i]);
    }
}

TEST(Rng, CounterAndKeyLayout) {
    const u64 index = (u64{5} << 34) + 4 * 9 + 2;  // block 5 * 2^32 + 9, word 2
    const u64 seed = (u64{0x1234} << 32) | 0x5678;
    EXPECT_EQ(random_word(seed, 11, 22, index), philox({{9, 5, 11, 22}}, {0x5678, 0x1234}).word[2]);
    const PhiloxBlock block = philox({{3, 0, 11, 22}}, {0x5678, 0x1234});
    EXPECT_EQ(random_u64(seed, 11, 22, 7), block.word[2] | (u64{block.word[3]} << 32));
}

TEST(Rng, UniformStaysBelowOne) {
    EXPECT_EQ(uniform(0), 0.0);
    EXPECT_EQ(uniform(~0U), 1.0 - 0x1p-32);
}

TEST(Rng, DropoutThresholdEqualsTheCompareInDouble) {
    for (const double p : {0.0, 1e-12, 0x1p-32, 0.1, 0.25, 0.5, 0.9, 0.999999}) {
        const u32 threshold = dropout_threshold(p);
        for (i64 d = -2; d <= 2; ++d) {
            const u32 word = threshold + static_cast<u32>(d);
            EXPECT_EQ(word >= threshold, uniform(word) >= p) << p << " " << word;
        }
    }
    EXPECT_EQ(dropout_threshold(0.5), 0x80000000U);
    EXPECT_EQ(dropout_threshold(1 - 0x1p-40), 0xFFFFFFFFU);
}

TEST(Rng, VectorisedWordsEqualTheScalarOnes) {
    const ops::DropoutSpec spec{0.1, 0xDEADBEEF12345678ULL, 7, 99};
    for (const i64 first : {i64{0}, i64{1}, i64{2}, i64{3}, i64{1021}, (i64{1} << 34) - 5, (i64{1} << 40) + 3}) {
        for (const i64 n : {1, 2, 3, 4, 31, 32, 33, 67, 515}) {
            std::vector<u32> words(static_cast<std::size_t>(n) + 1, 0xABCDEF01U);
            cpu::dropout_words(words.data(), spec, first, n);
            for (i64 i = 0; i < n; ++i) {
                ASSERT_EQ(words[i], random_word(spec.seed, spec.site, spec.step, static_cast<u64>(first + i)));
            }
            EXPECT_EQ(words[n], 0xABCDEF01U);
        }
    }
}

TEST(Rng, KeptShareIsOneMinusP) {
    constexpr i64 n = 1 << 20;
    std::vector<float> factors(n);
    for (const double p : {0.1, 0.5, 0.9}) {
        cpu::dropout_factors(factors.data(), {p, 1, 2, 3}, 0, n);
        const auto kept = static_cast<double>(n - std::count(factors.begin(), factors.end(), 0.0F));
        // Binomial: 5 standard deviations sqrt(n p (1 - p)).
        EXPECT_NEAR(kept, n * (1 - p), 5 * std::sqrt(n * p * (1 - p)));
        EXPECT_EQ(*std::max_element(factors.begin(), factors.end()), static_cast<float>(1 / (1 - p)));
    }
}

// Phi(inverse_normal(p)) = p: erfc is exact to a few ulp; a relative error e of z moves log Phi by about z^2 e, so at
// |z| <= 8.3 and e = 1e-15 the bound is 70 * 1e-15, doubled for erfc.
TEST(Rng, InverseNormalInvertsTheDistributionFunction) {
    for (const double p : {0x1p-53, 1e-15, 1e-12, 1e-9,    0x1p-33, 1e-7, 1e-5,   1e-3,   0.01, 0.0749,  0.075,
                           0.0751,  0.2,   0.4,   0.49999, 0.5,     0.7,  0.9249, 0.9251, 0.99, 0.999999}) {
        const double back = 0.5 * std::erfc(-inverse_normal(p) / std::sqrt(2.0));
        EXPECT_NEAR(back / p, 1.0, 1.5e-13) << p;
    }
    EXPECT_EQ(inverse_normal(0.5), 0.0);
    EXPECT_EQ(inverse_normal(0.25), -inverse_normal(0.75));
}

TEST(Rng, PortableLogAgreesWithTheLibrary) {
    // 2 ulp of the result, or of the argument's own rounding near 1.
    for (const double x :
         {1e-300, 1e-9, 0.01, 0.5, 0.70710678, 0.7071068, 0.99, 1.0, 1.0001, 1.4142135, 1.4142136, 3.0, 1e10}) {
        EXPECT_NEAR(rng_detail::portable_log(x), std::log(x), 4.5e-16 * std::max(std::abs(std::log(x)), 0.01)) << x;
    }
}

TEST(Rng, NormalMomentsAndTails) {
    constexpr i64 n = 1 << 21;
    double sum = 0;
    double square = 0;
    double fourth = 0;
    i64 beyond2 = 0;
    i64 beyond4 = 0;
    for (i64 block = 0; block < n / 4; ++block) {
        double z[4];
        normals_at(42, 3, static_cast<u64>(block), z);
        for (const double x : z) {
            sum += x;
            square += x * x;
            fourth += x * x * x * x;
            beyond2 += std::abs(x) > 2 ? 1 : 0;
            beyond4 += std::abs(x) > 4 ? 1 : 0;
        }
    }
    const double root = std::sqrt(static_cast<double>(n));
    // 5 standard deviations of each estimate: Var z = 1, Var z^2 = 2, Var z^4 = 96, Bernoulli counts.
    EXPECT_NEAR(sum / n, 0, 5 / root);
    EXPECT_NEAR(square / n, 1, 5 * std::sqrt(2.0) / root);
    EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96.0) / root);
    EXPECT_NEAR(static_cast<double>(beyond2), n * 0.0455002639, 5 * std::sqrt(n * 0.0455));
    EXPECT_NEAR(static_cast<double>(beyond4), n * 6.3342484e-5, 5 * std::sqrt(n * 6.33e-5));
    EXPECT_LT(std::abs(normal_of(0)), 6.4);
    EXPECT_EQ(normal_of(0), -normal_of(~0U));
}

TEST(Rng, NormalByIndexEqualsTheBlockForm) {
    double z[4];
    normals_at(5, 6, 1000, z);
    for (u64 i = 0; i < 4; ++i) {
        EXPECT_EQ(z[i], normal_at(5, 6, 4000 + i));
    }
    EXPECT_NE(normal_at(5, 6, 0), normal_at(5, 7, 0));
    EXPECT_NE(normal_at(5, 6, 0), normal_at(6, 6, 0));
}

// The bits are a contract: every compiler, instruction set and device gives these. (Made with GCC 12; clang 14 and
// unoptimised builds agree.)
TEST(Rng, NormalBitsArePinned) {
    u64 hash = 0;
    for (u64 i = 0; i < 100000; ++i) {
        const u64 bits = std::bit_cast<u64>(normal_at(1234, 17, i));
        hash += mix64(bits ^ mix64(i));
    }
    EXPECT_EQ(hash, 849451167312230845ULL);
}

}  // namespace
}  // namespace ogrom
