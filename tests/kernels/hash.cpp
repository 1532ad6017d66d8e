#include "kernels/common/hash.h"

#include <bit>
#include <gtest/gtest.h>
#include <set>

namespace ogrom {
namespace {

// First outputs of SplitMix64 seeded with 0 (Vigna's splitmix64.c): its finaliser at multiples of the golden ratio.
TEST(Hash, Mix64KnownAnswers) {
    EXPECT_EQ(mix64(0x9E3779B97F4A7C15ULL), 0xE220A8397B1DCDAFULL);
    EXPECT_EQ(mix64(2 * 0x9E3779B97F4A7C15ULL), 0x6E789E6AA1B965F4ULL);
    EXPECT_EQ(mix64(3 * 0x9E3779B97F4A7C15ULL), 0x06C45D188009454FULL);
}

TEST(Hash, EveryArgumentCounts) {
    const u64 base = mix(3, 100, 1.5F);
    EXPECT_NE(base, mix(4, 100, 1.5F));
    EXPECT_NE(base, mix(3, 101, 1.5F));
    EXPECT_NE(base, mix(3, 100 + (u64{1} << 32), 1.5F));
    EXPECT_NE(base, mix(3, 100, std::bit_cast<float>(std::bit_cast<u32>(1.5F) + 1)));
    EXPECT_NE(mix(3, 100, 0.0F), mix(3, 100, -0.0F));
    EXPECT_EQ(base, hash_element(hash_tensor(3), 100, std::bit_cast<u32>(1.5F)));
}

// A flipped bit of the value flips each of the 64 result bits with probability 1/2: 32 +- 5 * 4 of them.
TEST(Hash, AFlippedBitSpreads) {
    for (int bit = 0; bit < 32; ++bit) {
        const u64 difference = mix(1, 2, 0x3F800000U) ^ mix(1, 2, 0x3F800000U ^ (1U << bit));
        EXPECT_NEAR(std::popcount(difference), 32, 20) << bit;
    }
}

TEST(Hash, ExchangedElementsChangeTheSum) {
    const u64 straight = mix(0, 0, 1.0F) + mix(0, 1, 2.0F);
    const u64 exchanged = mix(0, 0, 2.0F) + mix(0, 1, 1.0F);
    EXPECT_NE(straight, exchanged);
    const u64 across_tensors = mix(0, 1, 1.0F) + mix(1, 0, 2.0F);
    EXPECT_NE(mix(0, 1, 2.0F) + mix(1, 0, 1.0F), across_tensors);
}

TEST(Hash, NoCollisionAmongNeighbours) {
    std::set<u64> seen;
    for (u64 tensor = 0; tensor < 20; ++tensor) {
        for (u64 index = 0; index < 2000; ++index) {
            seen.insert(mix(tensor, index, 0.02F));
        }
    }
    EXPECT_EQ(seen.size(), 40000U);
}

}  // namespace
}  // namespace ogrom
