#include "kernels/ops/flat.h"

#include "kernels/common/dtype.h"

#include "tests/kernels/support.h"

namespace ogrom {
namespace {

template <class T>
class FlatTest : public ::testing::Test {};
TYPED_TEST_SUITE(FlatTest, test::Precisions);

TYPED_TEST(FlatTest, AddIsOneRoundedSum) {
    using T = TypeParam;
    for (const i64 n : {i64{0}, i64{1}, i64{17}, i64{8193}, i64{40001}}) {
        const auto x = test::random_values<T>(n, 1);
        const auto before = test::random_values<T>(n, 2);
        for (const int threads : {1, 3}) {
            const test::Threads scope(threads);
            auto y = before;
            y.push_back(T{7});  // a guard behind the range
            ops::add(Stream{}, y.data(), x.data(), n);
            for (i64 i = 0; i < n; ++i) {
                ASSERT_EQ(y[i], before[i] + x[i]) << i;
            }
            EXPECT_EQ(y[n], T{7});
        }
    }
}

TYPED_TEST(FlatTest, CopyKeepsEveryBit) {
    using T = TypeParam;
    for (const i64 n : {i64{0}, i64{1}, i64{17}, i64{8193}, i64{40001}}) {
        auto x = test::random_values<T>(n, 1);
        if (n > 1) {
            x[0] = -T{0};
            x[1] = std::numeric_limits<T>::quiet_NaN();
        }
        auto y = test::poisoned<T>(n + 1);
        y[n] = T{7};
        ops::copy(Stream{}, y.data(), x.data(), n);
        EXPECT_EQ(y[n], T{7});
        y.pop_back();
        EXPECT_TRUE(test::same_bits(y, x));
        ops::copy(Stream{}, y.data(), y.data(), n);
        EXPECT_TRUE(test::same_bits(y, x));
    }
}

TYPED_TEST(FlatTest, FillWritesTheRangeAlone) {
    using T = TypeParam;
    for (const i64 n : {i64{0}, i64{1}, i64{17}, i64{40001}}) {
        for (const int threads : {1, 3}) {
            const test::Threads scope(threads);
            auto y = test::poisoned<T>(n + 1);
            y[n] = T{7};  // a guard behind the range
            ops::fill(Stream{}, y.data(), T(-1.5), n);
            for (i64 i = 0; i < n; ++i) {
                ASSERT_EQ(y[i], T(-1.5)) << i;
            }
            EXPECT_EQ(y[n], T{7});
        }
    }
}

// Each pair of types: one rounding, the guard stays.
template <class To, class From>
void cast_case() {
    const i64 n = 40001;
    const auto values = test::random_values<double>(n, 3, 1e3);
    std::vector<From> x(values.size());
    ops::cast(Stream{}, x.data(), values.data(), n);
    std::vector<To> y(values.size() + 1, static_cast<To>(7.0F));
    ops::cast(Stream{}, y.data(), x.data(), n);
    for (i64 i = 0; i < n; ++i) {
        const auto from = static_cast<float>(x[i]);  // the values are exact in float
        ASSERT_EQ(static_cast<float>(y[i]), static_cast<float>(static_cast<To>(from))) << i;
    }
    EXPECT_EQ(static_cast<float>(y[n]), 7.0F);
}

TEST(Cast, EveryPairOfTypes) {
    cast_case<float, float>();
    cast_case<float, double>();
    cast_case<float, Bf16>();
    cast_case<double, float>();
    cast_case<double, double>();
    cast_case<double, Bf16>();
    cast_case<Bf16, float>();
    cast_case<Bf16, double>();
    cast_case<Bf16, Bf16>();
    cast_case<float, Fp16>();
    cast_case<double, Fp16>();
    cast_case<Fp16, float>();
    cast_case<Fp16, double>();
    cast_case<Fp16, Fp16>();
}

template <class T>
void expect_exact_sums() {
    const auto values = test::random_values<float>(8193, 4);
    const auto before = test::random_values<float>(8193, 5);
    std::vector<T> x(values.size());
    ops::cast(Stream{}, x.data(), values.data(), 8193);
    auto y = before;
    ops::add(Stream{}, y.data(), x.data(), 8193);
    for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_EQ(y[i], before[i] + to_float(x[i])) << i;
    }
}

TEST(Cast, Adds16BitsToFloatExactly) {
    expect_exact_sums<Bf16>();
    expect_exact_sums<Fp16>();
}

}  // namespace
}  // namespace ogrom
