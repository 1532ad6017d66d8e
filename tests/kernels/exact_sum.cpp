// The exact sum of doubles against known values, extended precision, and itself in other orders.
#include "kernels/common/exact_sum.h"

#include <numeric>

#include "tests/kernels/support.h"

namespace ogrom {
namespace {

double sum_of(const std::vector<double>& x) {
    ExactSum sum;
    for (const double value : x) {
        sum.add(value);
    }
    return sum.value();
}

// A number with a random sign, mantissa and exponent in [low, high].
double random_number(u64 index, int low, int high) {
    const u64 bits = random_u64(99, 1, 2, index);
    const auto exponent = low + static_cast<int>(random_word(99, 3, 4, index) % static_cast<u32>(high - low + 1));
    return std::bit_cast<double>((bits & 0x800FFFFFFFFFFFFFULL) | (static_cast<u64>(exponent + 1023) << 52));
}

TEST(ExactSum, OneNumberComesBackAsItWas) {
    EXPECT_EQ(sum_of({}), 0.0);
    EXPECT_EQ(sum_of({0.0, -0.0}), 0.0);
    for (const double x : {1.0, -1.0, 3.0, 0.1, -1e-30, 6.02e23, 0x1.fffffffffffffp319, 0x1p-320, 0x1.8p-319}) {
        EXPECT_EQ(sum_of({x}), x);
    }
    for (u64 i = 0; i < 2000; ++i) {
        const double x = random_number(i, -268, 319);  // 52 bits below 2^-268 lie above 2^-320
        ASSERT_EQ(sum_of({x}), x) << i;
    }
    static_assert([] {
        ExactSum sum;
        sum.add(0.1);
        sum.add(-0.3);
        return sum.value();
    }() < 0);
}

// What is below 2^-320 is cut off towards 0, addend by addend.
TEST(ExactSum, BitsBelowTheLowestAreCut) {
    EXPECT_EQ(sum_of({0x1p-321}), 0.0);
    EXPECT_EQ(sum_of({0x1p-321, 0x1p-321}), 0.0);
    EXPECT_EQ(sum_of({0x1.8p-320}), 0x1p-320);
    EXPECT_EQ(sum_of({-0x1.8p-320}), -0x1p-320);
    EXPECT_EQ(sum_of({std::numeric_limits<double>::denorm_min(), 1.0}), 1.0);
    EXPECT_EQ(sum_of({std::numeric_limits<double>::min()}), 0.0);
}

TEST(ExactSum, WhatCannotBeHeldShows) {
    const double infinity = std::numeric_limits<double>::infinity();
    for (const double bad : {infinity, -infinity, std::nan(""), 0x1p320, -0x1p1000}) {
        EXPECT_TRUE(std::isnan(sum_of({1.0, bad, 2.0}))) << bad;
    }
    EXPECT_EQ(sum_of({0x1.fffffffffffffp319, 0x1.fffffffffffffp319}), 0x1.fffffffffffffp320);
}

TEST(ExactSum, NothingIsLostBetweenFarNumbers) {
    EXPECT_EQ(sum_of({0x1p300, 1.0, -0x1p300}), 1.0);
    EXPECT_EQ(sum_of({1e20, 0x1p-300, -1e20}), 0x1p-300);
    EXPECT_EQ(sum_of({0x1p-300, -0x1p200, 0x1p200, -0x1p-300}), 0.0);
    EXPECT_EQ(sum_of({-5.0, 3.0}), -2.0);
    EXPECT_EQ(sum_of({1.0, -0x1p-320}), 1.0);  // rounds up to 1 again
}

// Ties go to the even neighbour, and one bit far below decides a tie.
TEST(ExactSum, RoundsToNearestEven) {
    EXPECT_EQ(sum_of({1.0, 0x1p-53}), 1.0);
    EXPECT_EQ(sum_of({1.0, 0x1p-53, 0x1p-310}), 1.0 + 0x1p-52);
    EXPECT_EQ(sum_of({1.0, 0x1p-53, -0x1p-310}), 1.0);
    EXPECT_EQ(sum_of({1.0 + 0x1p-52, 0x1p-53}), 1.0 + 0x1p-51);
    EXPECT_EQ(sum_of({-1.0, -0x1p-53, -0x1p-310}), -1.0 - 0x1p-52);
    EXPECT_EQ(sum_of({0x1.fffffffffffffp0, 0x1p-53}), 2.0);  // the carry runs into the exponent
}

// Two numbers: the addition of the machine is the correctly rounded one.
TEST(ExactSum, TwoNumbersEqualTheMachinesSum) {
    for (u64 i = 0; i < 20000; ++i) {
        const double a = random_number(2 * i, -60, 60);
        const double b = random_number(2 * i + 1, -60, 60);
        ASSERT_EQ(sum_of({a, b}), a + b) << i;
    }
}

// Numbers whose sum extended precision holds without rounding: the double of it.
TEST(ExactSum, ManyNumbersEqualExtendedPrecision) {
    std::vector<double> x;
    long double want = 0;
    for (u64 i = 0; i < 50000; ++i) {
        x.push_back(std::round(random_number(i, 20, 39)));  // integers below 2^40, 50000 of them: below 2^56
        want += static_cast<long double>(x.back());
    }
    EXPECT_EQ(sum_of(x), static_cast<double>(want));
}

TEST(ExactSum, NoOrderAndNoGroupingChangesABit) {
    std::vector<double> x(3001);
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = random_number(i, -200, 200);
    }
    const double want = sum_of(x);
    std::sort(x.begin(), x.end());
    EXPECT_EQ(sum_of(x), want);
    std::reverse(x.begin(), x.end());
    EXPECT_EQ(sum_of(x), want);
    for (const std::size_t ranks : {1U, 2U, 7U, 300U}) {
        std::vector<ExactSum> part(ranks);
        for (std::size_t i = 0; i < x.size(); ++i) {
            part[i * 31 % ranks].add(x[i]);
        }
        ExactSum words;
        ExactSum merged;
        for (ExactSum& sum : part) {
            merged.add(sum);
            sum.normalise();
            for (std::size_t k = 0; k < ExactSum::words; ++k) {
                words.limb[k] += sum.limb[k];
            }
        }
        EXPECT_EQ(words.value(), want);
        EXPECT_EQ(merged.value(), want);
    }
}

// 2^20 ranks with the largest digits that normalise() leaves: 2^20 times the number, exactly.
TEST(ExactSum, AMillionRanksDoNotOverflowAWord) {
    ExactSum one;
    one.add(0x1.fffffffffffffp100);
    one.add(-0x1p-200);  // all digits between are full
    one.normalise();
    ExactSum all;
    for (std::size_t k = 0; k < ExactSum::words; ++k) {
        all.limb[k] = one.limb[k] * (i64{1} << 20);
    }
    EXPECT_EQ(all.value(), one.value() * 0x1p20);
    // Words that were never settled: 2^30 addends of full digits, as one word would hold them.
    ExactSum many;
    many.add(0x1.fffffffffffffp40);
    for (i64& word : many.limb) {
        word *= i64{1} << 30;
    }
    EXPECT_EQ(many.value(), 0x1.fffffffffffffp70);
}

}  // namespace
}  // namespace ogrom
