// The 8-bit types against their definition, tensors in them, and their products.
#include "kernels/ops/fp8.h"

#include <bit>
#include <cmath>

#include "kernels/common/error.h"

#include "tests/kernels/support.h"

namespace ogrom {
namespace {

constexpr Dtype formats[] = {Dtype::fp8_e4m3, Dtype::fp8_e5m2};

// From the text of the specification: sign, exponent, mantissa.
double defined(int code, Dtype type) {
    const int bits = type == Dtype::fp8_e4m3 ? 3 : 2, bias = type == Dtype::fp8_e4m3 ? 7 : 15;
    const double sign = code >= 128 ? -1 : 1;
    const int exponent = code % 128 >> bits, mantissa = code % (1 << bits);
    if (type == Dtype::fp8_e4m3 ? code % 128 == 127 : exponent == 31 && mantissa != 0) {
        return std::nan("");
    }
    if (type == Dtype::fp8_e5m2 && exponent == 31) {
        return sign * std::numeric_limits<double>::infinity();
    }
    return sign * (exponent == 0 ? std::ldexp(mantissa, 1 - bias - bits)
                                 : std::ldexp((1 << bits) + mantissa, exponent - bias - bits));
}
int largest_code(Dtype type) {
    return type == Dtype::fp8_e4m3 ? 126 : 123;
}

TEST(Fp8Type, EveryCodeIsItsNumberAndComesBack) {
    for (const Dtype type : formats) {
        for (int code = 0; code < 256; ++code) {
            const float value = from_fp8(static_cast<Fp8Code>(code), type);
            const double want = defined(code, type);
            if (std::isnan(want)) {
                EXPECT_TRUE(std::isnan(value)) << code;
                EXPECT_EQ(to_fp8(value, type), 0x7F);
                continue;
            }
            EXPECT_EQ(static_cast<double>(value), want) << code;
            EXPECT_EQ(std::signbit(value), code >= 128) << code;
            const int saturated = std::isinf(want) ? code / 128 * 128 + largest_code(type) : code;
            EXPECT_EQ(to_fp8(value, type), saturated) << code;
        }
        EXPECT_EQ(static_cast<double>(fp8_format(type).largest), defined(largest_code(type), type));
    }
}

// Between each pair of neighbours: the middle goes to the even one, what lies beside it to the nearer one.
TEST(Fp8Type, RoundsToTheNearestTiesToEven) {
    for (const Dtype type : formats) {
        for (int low = 0; low < largest_code(type); ++low) {
            const auto middle = static_cast<float>((defined(low, type) + defined(low + 1, type)) / 2);
            const int even = low % 2 == 0 ? low : low + 1;
            for (const int sign : {0, 128}) {
                const auto rounded = [&](float x) { return int{to_fp8(sign == 0 ? x : -x, type)}; };
                ASSERT_EQ(rounded(middle), even + sign);
                ASSERT_EQ(rounded(std::nextafter(middle, 0.0F)), low + sign);
                ASSERT_EQ(rounded(std::nextafter(middle, 1e9F)), low + 1 + sign);
            }
        }
    }
}

TEST(Fp8Type, SaturatesAndKeepsNan) {
    for (const Dtype type : formats) {
        const float largest = fp8_format(type).largest;
        for (const float beyond :
             {largest * 1.01F, largest * 1.2F, largest * 4, 3e38F, std::numeric_limits<float>::infinity()}) {
            EXPECT_EQ(to_fp8(beyond, type), largest_code(type)) << beyond;
            EXPECT_EQ(to_fp8(-beyond, type), largest_code(type) + 128) << beyond;
        }
        EXPECT_EQ(to_fp8(std::nanf(""), type), 0x7F);
        EXPECT_EQ(to_fp8(-std::nanf(""), type), 0x7F);
        EXPECT_EQ(to_fp8(1e-45F, type), 0);
        EXPECT_EQ(to_fp8(-1e-45F, type), 128);
    }
}

TEST(Fp8Scale, PutsTheLargestNumberOnTheFormatsLargest) {
    EXPECT_EQ(fp8_factor(448, Dtype::fp8_e4m3), 1);
    EXPECT_EQ(fp8_factor(7, Dtype::fp8_e4m3), 64);
    EXPECT_EQ(fp8_factor(7, Dtype::fp8_e5m2), 8192);
    EXPECT_EQ(fp8_factor(0, Dtype::fp8_e5m2), 1);
    EXPECT_EQ(fp8_factor(1e-40F, Dtype::fp8_e4m3), 0x1p120F);  // and not infinite
    EXPECT_GT(1.0F / fp8_factor(std::numeric_limits<float>::max(), Dtype::fp8_e4m3), 0);
    EXPECT_TRUE(std::isnan(fp8_factor(std::numeric_limits<float>::infinity(), Dtype::fp8_e4m3)));
    EXPECT_TRUE(std::isnan(fp8_factor(std::nanf(""), Dtype::fp8_e5m2)));
}

template <class T>
struct Quantised {
    i64 rows, cols;
    Dtype format;
    std::vector<Fp8Code> codes = std::vector<Fp8Code>(static_cast<std::size_t>(rows * cols), 0xAA);
    std::vector<Fp8Code> transposed = codes;
    Fp8Scale scale{-1, -1};

    void make(const std::vector<T>& x, T* sums = nullptr, ops::Largest largest = ops::Largest::measured) {
        ops::quantise<T>({}, {codes.data(), transposed.data(), &scale, x.data(), rows, cols, format, largest, sums});
    }
    [[nodiscard]] ops::Fp8Matrix matrix() const { return {codes.data(), &scale, format}; }
};

template <class T>
class Quantise : public ::testing::Test {};
TYPED_TEST_SUITE(Quantise, test::Precisions);

TYPED_TEST(Quantise, WritesCodesBothWaysAndTheScale) {
    using T = TypeParam;
    for (const Dtype format : formats) {
        for (const auto& [rows, cols] : {std::pair<i64, i64>{1, 1}, {3, 5}, {33, 70}, {64, 16}}) {
            const auto x = test::random_values<T>(rows * cols, 1, 3);
            float largest = 0;
            for (const T one : x) {
                largest = std::max(largest, std::abs(static_cast<float>(one)));
            }
            const float factor = fp8_format(format).largest / largest;
            Quantised<T> q{rows, cols, format};
            auto sums = test::random_values<T>(cols, 2);
            const auto before = sums;
            q.make(x, sums.data());
            EXPECT_EQ(q.scale.largest, largest);
            EXPECT_EQ(q.scale.inverse, 1 / factor);
            for (i64 r = 0; r < rows; ++r) {
                for (i64 c = 0; c < cols; ++c) {
                    const Fp8Code want = to_fp8(static_cast<float>(x[r * cols + c]) * factor, format);
                    ASSERT_EQ(q.codes[r * cols + c], want);
                    ASSERT_EQ(q.transposed[c * rows + r], want);
                    // Half a step of 2^-3 or 2^-2 of the number, or of the smallest normal one.
                    const double step = std::ldexp(1.0, format == Dtype::fp8_e4m3 ? -4 : -3);
                    const double smallest = std::ldexp(1.0, format == Dtype::fp8_e4m3 ? -6 : -14) / factor;
                    const double back = static_cast<double>(from_fp8(want, format)) * q.scale.inverse;
                    ASSERT_LE(std::abs(back - x[r * cols + c]),
                              step * std::max(smallest, std::abs(static_cast<double>(x[r * cols + c]))) * 1.0001);
                }
            }
            for (i64 c = 0; c < cols; ++c) {
                double want = static_cast<double>(before[c]);
                for (i64 r = 0; r < rows; ++r) {
                    want += static_cast<double>(x[r * cols + c]);
                }
                EXPECT_NEAR(sums[c], want, 1e-6 * static_cast<double>(rows));
            }
            Quantised<T> again{rows, cols, format};
            again.scale.largest = 2 * largest;  // given, so believed
            again.make(x, nullptr, ops::Largest::given);
            EXPECT_EQ(again.scale.inverse, 1 / (factor / 2));
            EXPECT_EQ(again.codes.back(), to_fp8(static_cast<float>(x.back()) * (factor / 2), format));
        }
    }
}

TYPED_TEST(Quantise, ZerosStayAndANanReachesEveryProduct) {
    using T = TypeParam;
    Quantised<T> zeros{4, 4, Dtype::fp8_e4m3}, ones{4, 4, Dtype::fp8_e4m3}, broken{4, 4, Dtype::fp8_e5m2};
    zeros.make(std::vector<T>(16, 0));
    ones.make(std::vector<T>(16, 1));
    EXPECT_EQ(zeros.scale.inverse, 1);
    EXPECT_EQ(zeros.codes, std::vector<Fp8Code>(16, 0));
    for (const T bad : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
        std::vector<T> x(16, 1);
        x[5] = bad;
        broken.make(x);
        EXPECT_TRUE(std::isnan(broken.scale.inverse));
        std::vector<T> y(16, 1);
        ops::fp8_matmul<T>({}, {y.data(), broken.matrix(), ones.matrix(), 4, 4, 4, ops::ProductSums::full, 1});
        for (const T one : y) {
            EXPECT_TRUE(std::isnan(one));
        }
        // 0 x NaN: not hidden by zeros either.
        ops::fp8_matmul<T>({}, {y.data(), broken.matrix(), zeros.matrix(), 4, 4, 4});
        EXPECT_TRUE(std::isnan(y[0]));
    }
    std::vector<T> y = test::poisoned<T>(16);
    ops::fp8_matmul<T>({}, {y.data(), zeros.matrix(), ones.matrix(), 4, 4, 4});
    EXPECT_EQ(y, std::vector<T>(16, 0));
}

TYPED_TEST(Quantise, ProductsAreThoseOfTheRoundedNumbers) {
    using T = TypeParam;
    constexpr i64 m = 5, n = 7, k = 33;
    Quantised<T> a{m, k, Dtype::fp8_e5m2}, b{n, k, Dtype::fp8_e4m3};
    a.make(test::random_values<T>(m * k, 1, 1e-3));
    b.make(test::random_values<T>(n * k, 2, 50));
    const auto start = test::random_values<T>(m * n, 3);
    std::vector<double> want, added;
    for (i64 i = 0; i < m * n; ++i) {
        double sum = 0;
        for (i64 j = 0; j < k; ++j) {
            sum += defined(a.codes[i / n * k + j], a.format) * defined(b.codes[i % n * k + j], b.format);
        }
        want.push_back(sum * a.scale.inverse * b.scale.inverse);
        added.push_back(want.back() + static_cast<double>(start[i]));
    }
    auto y = test::poisoned<T>(m * n), sum = start;
    ops::fp8_matmul<T>({}, {y.data(), a.matrix(), b.matrix(), m, n, k});
    ops::fp8_matmul<T>({}, {sum.data(), a.matrix(), b.matrix(), m, n, k, ops::ProductSums::full, 1});
    test::expect_near(y, want, 2 * test::roundoff<T>(), 1e-6);
    test::expect_near(sum, added, 2 * test::roundoff<T>());
}

TEST(Fp8OnTheCpu, Bf16IsRefused) {
    Bf16 x{};
    Fp8Code code = 7;
    Fp8Scale scale{};
    EXPECT_THROW(ops::quantise<Bf16>({}, {&code, nullptr, &scale, &x, 1, 1, Dtype::fp8_e4m3}), Error);
    EXPECT_THROW(
        ops::fp8_matmul<Bf16>({}, {&x, {&code, &scale, Dtype::fp8_e4m3}, {&code, &scale, Dtype::fp8_e4m3}, 1, 1, 1}),
        Error);
    EXPECT_EQ(code, 7);
}

}  // namespace
}  // namespace ogrom
