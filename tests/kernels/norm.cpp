#include "kernels/ops/norm.h"

#include <bit>

#include "tests/kernels/support.h"
#include "tests/reference/norm.h"

namespace ogrom {
namespace {

template <class T>
class NormTest : public ::testing::Test {};
TYPED_TEST_SUITE(NormTest, test::Precisions);

TYPED_TEST(NormTest, SumOfSquaresEqualsTheReference) {
    for (const i64 n : {i64{0}, i64{1}, i64{15}, i64{4096}, i64{4097}, i64{100003}}) {
        const auto x = test::random_values<TypeParam>(n, 1);
        const double want = reference::sum_of_squares(x.data(), n);
        // Positive terms in double: 4096 / 16 + 4 + 25 additions to a growing sum, which cancel in part: a third of
        // them.
        EXPECT_NEAR(ops::sum_of_squares(Stream{}, x.data(), n), want, 100 * test::roundoff<double>() * want);
    }
}

TYPED_TEST(NormTest, LargeAndTinyValuesDoNotOverflowInFp32) {
    const std::vector<TypeParam> large(5, TypeParam{1e30F});
    EXPECT_NEAR(ops::sum_of_squares(Stream{}, large.data(), 5) / 5e60, 1, 1e-7);  // 1e30 rounded to fp32
    const std::vector<TypeParam> tiny(5, TypeParam{1e-30F});
    EXPECT_NEAR(ops::sum_of_squares(Stream{}, tiny.data(), 5) / 5e-60, 1, 1e-7);
}

TYPED_TEST(NormTest, AnyNumberOfThreadsGivesTheSameBits) {
    const auto x = test::random_values<TypeParam>(5000011, 2);
    double results[3];
    const int counts[3] = {1, 2, 5};
    for (int i = 0; i < 3; ++i) {
        const test::Threads threads(counts[i]);
        results[i] = ops::sum_of_squares(Stream{}, x.data(), 5000011);
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
}

// The order is a contract: whole ranges that start at a multiple of 4096 add up block by block.
TYPED_TEST(NormTest, BlocksAreAddedInAscendingOrder) {
    const auto x = test::random_values<TypeParam>(3 * 4096 + 5, 3);
    double sum = 0;
    for (i64 start = 0; start < static_cast<i64>(x.size()); start += 4096) {
        sum += ops::sum_of_squares(Stream{}, x.data() + start, std::min<i64>(4096, static_cast<i64>(x.size()) - start));
    }
    EXPECT_EQ(sum, ops::sum_of_squares(Stream{}, x.data(), static_cast<i64>(x.size())));
}

TYPED_TEST(NormTest, NanShowsInTheSum) {
    auto x = test::random_values<TypeParam>(9000, 4);
    x[8999] = std::numeric_limits<TypeParam>::quiet_NaN();
    EXPECT_TRUE(std::isnan(ops::sum_of_squares(Stream{}, x.data(), 9000)));
}

double block_value(const ExactSum& sum) {
    ExactSum copy = sum;
    copy.normalise();
    return copy.value();
}

TYPED_TEST(NormTest, BlockSquaresEqualTheReference) {
    for (const i64 n : {i64{0}, i64{1}, i64{255}, i64{256}, i64{257}, i64{100003}}) {
        const auto x = test::random_values<TypeParam>(n, 1);
        ExactSum sum;
        ops::block_squares(Stream{}, x.data(), n, sum);
        const double want = reference::sum_of_squares(x.data(), n);
        // 16 squares and sums one after the other in a lane and 4 more, in double, of random sign; blocks exactly.
        EXPECT_NEAR(sum.value(), want, 5 * test::roundoff<double>() * want) << n;
    }
    const auto x = test::random_values<TypeParam>(1000003, 2);
    ExactSum sum;
    ops::block_squares(Stream{}, x.data(), 1000003, sum);
    // The roundings of 3907 blocks average out.
    const long double want = reference::long_sum_of_squares(x.data(), 1000003);
    EXPECT_LE(std::abs((static_cast<long double>(sum.value()) - want) / want), 1e-15L);
}

TYPED_TEST(NormTest, RangesAtOnceAreTheRangesInTurn) {
    const auto x = test::random_values<TypeParam>(20000, 3, 1e6);
    const std::vector<ops::SquaresRange<TypeParam>> ranges = {
        {x.data(), 5000}, {x.data() + 7000, 0}, {x.data() + 9001, 777}};
    ExactSum at_once, in_turn;
    ops::block_squares<TypeParam>(Stream{}, ranges, at_once);
    for (const auto& range : ranges) {
        ops::block_squares(Stream{}, range.x, range.n, in_turn);
    }
    EXPECT_GT(at_once.value(), 0);
    EXPECT_EQ(at_once.value(), in_turn.value());
}

// Ranks hold parts cut at blocks, each with other threads; their words are added in any order.
TYPED_TEST(NormTest, AnyCutAtBlocksGivesTheSameBits) {
    const i64 blocks = 401;
    const i64 n = blocks * ops::norm_block - 77;
    const auto x = test::random_values<TypeParam>(n, 3, 1e6);
    ExactSum whole;
    ops::block_squares(Stream{}, x.data(), n, whole);
    for (u32 trial = 0; trial < 12; ++trial) {
        std::vector<i64> cuts{0, n};
        const i64 parts = 1 + static_cast<i64>(random_word(5, trial, 0, 0) % 9);
        for (i64 i = 1; i < parts; ++i) {
            cuts.push_back(ops::norm_block *
                           static_cast<i64>(random_word(5, trial, 1, static_cast<u64>(i)) % static_cast<u32>(blocks)));
        }
        std::sort(cuts.begin(), cuts.end());
        std::array<i64, ExactSum::words> words{};
        for (std::size_t i = cuts.size() - 1; i > 0; --i) {
            const test::Threads threads(static_cast<int>(i % 3) + 1);
            ExactSum part;
            ops::block_squares(Stream{}, x.data() + cuts[i - 1], cuts[i] - cuts[i - 1], part);
            part.normalise();
            for (std::size_t k = 0; k < words.size(); ++k) {
                words[k] += part.limb[k];
            }
        }
        ExactSum sum;
        sum.limb = words;
        EXPECT_EQ(sum.value(), whole.value()) << trial;
    }
}

TYPED_TEST(NormTest, BlockSquaresHoldAllOfFp32AndShowWhatIsNotFinite) {
    const std::vector<TypeParam> largest(3, TypeParam{std::numeric_limits<float>::max()});
    ExactSum sum;
    ops::block_squares(Stream{}, largest.data(), 3, sum);
    EXPECT_EQ(sum.value(), 3 * std::pow(static_cast<double>(std::numeric_limits<float>::max()), 2));
    const std::vector<TypeParam> smallest(3, TypeParam{std::numeric_limits<float>::denorm_min()});
    ExactSum tiny;
    ops::block_squares(Stream{}, smallest.data(), 3, tiny);
    EXPECT_EQ(tiny.value(), 3 * 0x1p-298);
    for (const TypeParam bad :
         {std::numeric_limits<TypeParam>::quiet_NaN(), -std::numeric_limits<TypeParam>::infinity()}) {
        auto x = test::random_values<TypeParam>(9000, 4);
        x[8999] = bad;
        ExactSum poisoned;
        ops::block_squares(Stream{}, x.data(), 9000, poisoned);
        EXPECT_TRUE(std::isnan(block_value(poisoned)));
    }
}

TYPED_TEST(NormTest, LastNonfiniteKeepsTheLargestPlace) {
    using T = TypeParam;
    std::vector<T> x(40001, T{1});
    u64 key = 0;
    ops::last_nonfinite(Stream{}, &key, x.data(), 40001, u64{1} << 40);
    EXPECT_EQ(key, 0u);
    for (const std::size_t place : {0U, 4095U, 4096U, 20000U, 40000U}) {
        x[place] = std::numeric_limits<T>::quiet_NaN();
        ops::last_nonfinite(Stream{}, &key, x.data(), 40001, u64{1} << 40);
        EXPECT_EQ(key, (u64{1} << 40) + 1 + place);
    }
    ops::last_nonfinite(Stream{}, &key, x.data(), 40001, 7);
    EXPECT_EQ(key, (u64{1} << 40) + 40001) << "what is smaller changes nothing";
}

TYPED_TEST(NormTest, AllFiniteSeesEveryPlaceAndKind) {
    using T = TypeParam;
    const T inf = std::numeric_limits<T>::infinity();
    const T nan = std::numeric_limits<T>::quiet_NaN();
    std::vector<T> x(40000, std::numeric_limits<T>::max());
    x[7] = std::numeric_limits<T>::denorm_min();
    x[8] = -T{0};
    x[9] = std::numeric_limits<T>::lowest();
    EXPECT_TRUE(ops::all_finite(Stream{}, x.data(), 40000));
    for (const T bad : {inf, -inf, nan, -nan, std::numeric_limits<T>::signaling_NaN()}) {
        for (const std::size_t place : {0U, 15U, 4095U, 4096U, 20000U, 39999U}) {
            const T before = x[place];
            x[place] = bad;
            EXPECT_FALSE(ops::all_finite(Stream{}, x.data(), 40000)) << place;
            x[place] = before;
        }
    }
    EXPECT_TRUE(ops::all_finite(Stream{}, x.data(), 0));
}

}  // namespace
}  // namespace ogrom
