#include "kernels/ops/gelu.h"

#include "kernels/common/fastmath.h"

#include "tests/kernels/support.h"
#include "tests/reference/gelu.h"

namespace ogrom {
namespace {

template <class T>
class GeluTest : public ::testing::Test {};
TYPED_TEST_SUITE(GeluTest, test::Precisions);

// k has 4 roundings and |dy/dk| < |u| / (1 + |k|) stays below 1; e^x 2 ulp, a division, a product: 10 in all.
constexpr double forward_bound = 10;

TYPED_TEST(GeluTest, ForwardKeepsXPlusBiasAndEqualsTheReference) {
    using T = TypeParam;
    for (const i64 F : {i64{1}, i64{7}, i64{33}, i64{3072}}) {
        const i64 rows = 5;
        auto x = test::random_values<T>(rows * F, 1, 6);
        const auto bias = test::random_values<T>(F, 2);
        const auto x_before = x;
        auto y = test::poisoned<T>(rows * F);
        ops::bias_gelu_forward<T>({}, {y.data(), x.data(), bias.data(), rows, F});
        std::vector<double> want;
        for (i64 i = 0; i < rows * F; ++i) {
            ASSERT_EQ(x[i], x_before[i] + bias[i % F]);
            want.push_back(reference::gelu(static_cast<double>(x[i])));
        }
        test::expect_near(y, want, forward_bound * test::roundoff<T>());
        auto x2 = x;
        auto y2 = test::poisoned<T>(rows * F);
        ops::bias_gelu_forward<T>({}, {y2.data(), x2.data(), nullptr, rows, F});
        EXPECT_EQ(x2, x);
        EXPECT_EQ(y2, y);
    }
}

// Selective recomputation drops y and makes it again from u, in rows cut otherwise.
TYPED_TEST(GeluTest, ForwardFromTheKeptUGivesTheStoredBits) {
    using T = TypeParam;
    for (const i64 F : {i64{1}, i64{7}, i64{33}, i64{3071}}) {
        const i64 rows = 5;
        auto u = test::random_values<T>(rows * F, 1, 6);
        const auto bias = test::random_values<T>(F, 2);
        auto stored = test::poisoned<T>(rows * F);
        ops::bias_gelu_forward<T>({}, {stored.data(), u.data(), bias.data(), rows, F});
        std::vector<double> want;
        for (const T value : u) {
            want.push_back(reference::gelu(static_cast<double>(value)));
        }
        for (const int threads : {1, 3}) {
            const test::Threads scope(threads);
            auto again = test::poisoned<T>(rows * F);
            ops::gelu_forward<T>({}, {again.data(), u.data(), rows * F});
            EXPECT_TRUE(test::same_bits(again, stored));
            test::expect_near(again, want, forward_bound * test::roundoff<T>());
        }
        ops::gelu_forward<T>({}, {u.data(), u.data(), rows * F});
        EXPECT_TRUE(test::same_bits(u, stored));
    }
}

// In the negative tail the printed formula cancels in fp32; the sigmoid form keeps its digits: relative error =
// absolute error of the exponent, |2 k| < 70 times 4 roundings.
TYPED_TEST(GeluTest, NegativeTailKeepsItsDigits) {
    for (double u = -9; u < -3; u += 0.37) {
        auto x = static_cast<TypeParam>(u);
        TypeParam y = 0;
        ops::bias_gelu_forward<TypeParam>({}, {&y, &x, nullptr, 1, 1});
        const double v = static_cast<double>(x);
        const double k2 = 2 * std::sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v);
        const double want = v / (1 + std::exp(-k2));
        EXPECT_NEAR(static_cast<double>(y) / want, 1, 280 * test::roundoff<TypeParam>()) << u;
    }
}

TYPED_TEST(GeluTest, BackwardEqualsTheReference) {
    using T = TypeParam;
    for (const i64 n : {i64{1}, i64{9}, i64{5000}}) {
        const auto u = test::random_values<T>(n, 3, 9);
        auto d_y = test::random_values<T>(n, 4);
        auto d_x = test::poisoned<T>(n);
        ops::gelu_backward<T>({}, {d_x.data(), d_y.data(), u.data(), n});
        std::vector<double> want;
        for (i64 i = 0; i < n; ++i) {
            want.push_back(static_cast<double>(d_y[i]) * reference::gelu_derivative(static_cast<double>(u[i])));
        }
        // As forward, with the second term u s (1 - s) 2 k': below 0.9, 8 roundings and the exponent's 4 |2k| (|2k| < 4
        // where the term counts).
        test::expect_near(d_x, want, 24 * test::roundoff<T>());
        ops::gelu_backward<T>({}, {d_y.data(), d_y.data(), u.data(), n});
        EXPECT_EQ(d_y, d_x);
    }
}

// h = 1e-5: truncation h^2 / 6 of a third derivative near 1, 2e-11; rounding of y up to 6, 6e-16 / h = 6e-11.
TEST(Gelu, FiniteDifferences) {
    for (const double u : {-6.0, -2.5, -0.7, 0.0, 0.3, 1.9, 5.0}) {
        double points[2] = {u + 1e-5, u - 1e-5};
        double y[2];
        ops::bias_gelu_forward<double>({}, {y, points, nullptr, 1, 2});
        const double one = 1;
        double d_x = 0;
        ops::gelu_backward<double>({}, {&d_x, &one, &u, 1});
        EXPECT_NEAR((y[0] - y[1]) / 2e-5, d_x, 4e-10) << u;
    }
}

TYPED_TEST(GeluTest, NanAndInfinityPassAndLargeFiniteValuesStayFinite) {
    using T = TypeParam;
    const T inf = std::numeric_limits<T>::infinity();
    const T nan = std::numeric_limits<T>::quiet_NaN();
    const T big = std::numeric_limits<T>::max();
    std::vector<T> x{nan, inf, big, -big, T{1e18F}, T{-1e18F}, 0};
    const auto u = x;
    std::vector<T> y(x.size());
    ops::bias_gelu_forward<T>({}, {y.data(), x.data(), nullptr, 1, static_cast<i64>(x.size())});
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[1], inf);
    EXPECT_EQ(y[2], big);
    EXPECT_EQ(y[3], T{0});
    EXPECT_EQ(y[4], T{1e18F});
    EXPECT_EQ(y[5], T{0});
    const std::vector<T> d_y(x.size(), T{1});
    std::vector<T> d_x(x.size());
    ops::gelu_backward<T>({}, {d_x.data(), d_y.data(), u.data(), static_cast<i64>(x.size())});
    EXPECT_TRUE(std::isnan(d_x[0]));
    const std::vector<double> want{1, 1, 0, 1, 0, 0.5};
    test::expect_near(std::vector<T>(d_x.begin() + 1, d_x.end()), want, 1e-34);
}

TEST(Gelu, ExponentialIsWithin2Ulp) {
    for (float x = -87.33F; x < 88.72F; x += 0.00371F) {
        const double want = std::exp(static_cast<double>(x));
        const double ulp = std::ldexp(1.0, std::ilogb(want) - 23);
        ASSERT_LE(std::abs(static_cast<double>(exp_fast(x)) - want), 2 * ulp) << x;
        if (x <= 0) {
            ASSERT_EQ(exp_fast(x), exp_nonpositive(x)) << x;
        }
    }
    EXPECT_EQ(exp_fast(0.0F), 1.0F);
    EXPECT_EQ(exp_fast(-88.0F), 0.0F);
    EXPECT_EQ(exp_fast(-std::numeric_limits<float>::infinity()), 0.0F);
    EXPECT_EQ(exp_nonpositive(0.0F), 1.0F);
    EXPECT_EQ(exp_nonpositive(-std::numeric_limits<float>::infinity()), 0.0F);
    EXPECT_TRUE(std::isnan(exp_nonpositive(std::numeric_limits<float>::quiet_NaN())));
    EXPECT_EQ(exp_fast(89.0F), std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(exp_fast(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace ogrom
