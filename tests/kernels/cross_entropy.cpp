#include "kernels/ops/cross_entropy.h"

#include "tests/kernels/support.h"
#include "tests/reference/cross_entropy.h"

namespace ogrom {
namespace {

template <class T>
class CrossEntropyTest : public ::testing::Test {};
TYPED_TEST_SUITE(CrossEntropyTest, test::Precisions);

template <class T>
struct Rows {
    i64 rows, vocabulary, padded, ld;
    std::vector<T> logits;
    std::vector<std::int32_t> targets;
    std::vector<std::uint8_t> mask;

    Rows(i64 r, i64 v, i64 p, i64 stride, double scale = 5) : rows(r), vocabulary(v), padded(p), ld(stride) {
        logits = test::random_values<T>(r * stride, 1, scale);
        for (i64 i = 0; i < r; ++i) {
            targets.push_back(static_cast<std::int32_t>((i * 31 + 7) % v));
            mask.push_back(i % 3 == 1 ? 0 : 1);
        }
        targets.back() = static_cast<std::int32_t>(v - 1);
    }
    [[nodiscard]] std::vector<double> packed() const {
        std::vector<double> out;
        for (i64 r = 0; r < rows; ++r) {
            out.insert(out.end(), logits.begin() + r * ld, logits.begin() + r * ld + padded);
        }
        return out;
    }
    [[nodiscard]] reference::CrossEntropy wanted(double scale, bool masked) const {
        return reference::cross_entropy(packed(), targets, masked ? mask : std::vector<std::uint8_t>{}, vocabulary,
                                        padded, scale);
    }
    double run(double scale, ops::Gradient gradient, bool masked = true) {
        double loss = 0;
        ops::cross_entropy<T>({}, {logits.data(), targets.data(), masked ? mask.data() : nullptr, rows, vocabulary,
                                   padded, ld, scale, gradient, &loss});
        return loss;
    }
};

// exp has 2 ulp, z - top one rounding of a difference below 2 * 5 (so e^x is off by 10 u), the sum none (double), the
// product with scale / sum 2: 16 u relative on p <= 1.
constexpr double bound = 16;

// In the loss those errors of e^x average out in the sum: below one u a row, rows at random; and the loss is added up
// in double, which rounds it by itself.
template <class T>
double loss_bound(i64 rows, double loss) {
    return test::roundoff<T>() * std::sqrt(static_cast<double>(rows)) + 2 * test::roundoff<double>() * loss;
}

template <class T>
void check(i64 rows, i64 vocabulary, i64 padded, i64 ld, bool masked) {
    Rows<T> in(rows, vocabulary, padded, ld);
    const double scale = 0.25;
    const auto want = in.wanted(scale, masked);
    const auto before = in.logits;
    const double u = test::roundoff<T>();
    EXPECT_NEAR(in.run(scale, ops::Gradient::none, masked), want.loss_sum, loss_bound<T>(rows, want.loss_sum));
    EXPECT_EQ(in.logits, before);
    EXPECT_NEAR(in.run(scale, ops::Gradient::in_place, masked), want.loss_sum, loss_bound<T>(rows, want.loss_sum));
    std::vector<T> got;
    for (i64 r = 0; r < rows; ++r) {
        got.insert(got.end(), in.logits.begin() + r * ld, in.logits.begin() + r * ld + padded);
        for (i64 c = padded; c < ld; ++c) {
            ASSERT_EQ(in.logits[r * ld + c], before[r * ld + c]);  // beyond the row nothing is touched
        }
    }
    test::expect_near(got, want.gradient, bound * u, scale);
}

TYPED_TEST(CrossEntropyTest, EqualsTheReference) {
    check<TypeParam>(5, 3, 3, 3, true);
    check<TypeParam>(7, 37, 48, 53, true);
    check<TypeParam>(4, 1009, 1024, 1024, false);
    check<TypeParam>(1030, 17, 17, 17, true);  // more rows than are held at a time
    check<TypeParam>(2, 50257, 50304, 50304, false);
}

TYPED_TEST(CrossEntropyTest, ARowOfGradientsSumsToZero) {
    Rows<TypeParam> in(3, 200, 208, 208);
    in.run(1, ops::Gradient::in_place, false);
    for (i64 r = 0; r < 3; ++r) {
        double sum = 0;
        for (i64 v = 0; v < 208; ++v) {
            sum += static_cast<double>(in.logits[r * 208 + v]);
        }
        // Each p has a relative error below bound * u, and their sum is 1.
        EXPECT_NEAR(sum, 0, 2 * bound * test::roundoff<TypeParam>());
    }
}

// B07: with 5 words stored as 8 and equal logits the loss is ln 5, not ln 8; padding gets no probability or gradient,
// whatever it holds.
TYPED_TEST(CrossEntropyTest, B07PaddingTakesNoProbability) {
    for (const double padding : {0.0, 80.0, std::numeric_limits<double>::quiet_NaN()}) {
        std::vector<TypeParam> logits(8, TypeParam{0});
        std::fill(logits.begin() + 5, logits.end(), static_cast<TypeParam>(padding));
        const std::int32_t target = 4;
        double loss = 0;
        ops::cross_entropy<TypeParam>(
            {}, {logits.data(), &target, nullptr, 1, 5, 8, 8, 1.0, ops::Gradient::in_place, &loss});
        EXPECT_NEAR(loss, std::log(5.0), 4 * test::roundoff<double>());  // exponentials are exactly 1
        for (i64 v = 0; v < 8; ++v) {
            const double want = v >= 5 ? 0 : (v == target ? 0.2 - 1 : 0.2);
            EXPECT_NEAR(static_cast<double>(logits[v]), want, 2 * test::roundoff<TypeParam>());
        }
        EXPECT_EQ(logits[5], TypeParam{0});
        EXPECT_EQ(logits[7], TypeParam{0});
    }
}

TYPED_TEST(CrossEntropyTest, B07Gpt2Vocabulary) {
    std::vector<TypeParam> logits(50304, TypeParam{1.5});
    const std::int32_t target = 50256;
    double loss = 0;
    ops::cross_entropy<TypeParam>(
        {}, {logits.data(), &target, nullptr, 1, 50257, 50304, 50304, 1.0, ops::Gradient::none, &loss});
    EXPECT_NEAR(loss, 10.824905, 1e-6);  // ln 50257; ln 50304 = 10.825840
}

// B05: a micro-batch with no unmasked target adds exactly nothing and makes no NaN, even from NaN logits.
TYPED_TEST(CrossEntropyTest, B05AllMaskedAddsZero) {
    Rows<TypeParam> in(6, 19, 24, 24);
    in.logits = test::poisoned<TypeParam>(6 * 24);
    std::fill(in.mask.begin(), in.mask.end(), std::uint8_t{0});
    std::fill(in.targets.begin(), in.targets.end(), -1);
    EXPECT_EQ(in.run(1, ops::Gradient::none), 0.0);
    EXPECT_EQ(in.run(1, ops::Gradient::in_place), 0.0);
    EXPECT_EQ(in.logits, std::vector<TypeParam>(6 * 24, TypeParam{0}));
}

TYPED_TEST(CrossEntropyTest, B05MaskedRowsDoNotTouchTheOthers) {
    Rows<TypeParam> in(9, 33, 40, 40);
    auto poisoned = in;
    for (i64 r = 1; r < 9; r += 3) {  // the masked rows
        std::fill_n(poisoned.logits.begin() + r * 40, 40, std::numeric_limits<TypeParam>::quiet_NaN());
    }
    EXPECT_EQ(in.run(0.5, ops::Gradient::in_place), poisoned.run(0.5, ops::Gradient::in_place));
    EXPECT_EQ(in.logits, poisoned.logits);
}

// B05: 11 and 101 unmasked targets; with the global scale any cut of the rows gives the same gradient and loss.
TYPED_TEST(CrossEntropyTest, B05TheCutDoesNotMatter) {
    const i64 T = 128;
    Rows<TypeParam> whole(2 * T, 21, 24, 24);
    for (i64 i = 0; i < 2 * T; ++i) {
        whole.mask[i] = i % T < (i < T ? 11 : 101) ? 1 : 0;
    }
    auto cut = whole;
    const double scale = 1.0 / 112;
    const double loss = whole.run(scale, ops::Gradient::in_place);
    double parts = 0;
    for (i64 b = 0; b < 2; ++b) {
        ops::cross_entropy<TypeParam>(
            {}, {cut.logits.data() + b * T * 24, cut.targets.data() + b * T, cut.mask.data() + b * T, T, 21, 24, 24,
                 scale, ops::Gradient::in_place, &parts});
    }
    EXPECT_EQ(loss, parts);
    EXPECT_EQ(whole.logits, cut.logits);
}

TYPED_TEST(CrossEntropyTest, AnyNumberOfThreadsGivesTheSameBits) {
    const Rows<TypeParam> in(50, 300, 304, 304);
    auto one = in;
    auto many = in;
    double loss_one = 0;
    double loss_many = 0;
    {
        const test::Threads threads(1);
        loss_one = one.run(1, ops::Gradient::in_place);
    }
    {
        const test::Threads threads(7);
        loss_many = many.run(1, ops::Gradient::in_place);
    }
    EXPECT_EQ(loss_one, loss_many);
    EXPECT_EQ(one.logits, many.logits);
}

TYPED_TEST(CrossEntropyTest, LargeLogitsDoNotOverflowAndNanShows) {
    std::vector<TypeParam> logits{1000, -1000, 999, -std::numeric_limits<TypeParam>::infinity()};
    const std::int32_t target = 2;
    double loss = 0;
    ops::cross_entropy<TypeParam>({},
                                  {logits.data(), &target, nullptr, 1, 4, 4, 4, 1.0, ops::Gradient::in_place, &loss});
    EXPECT_NEAR(loss, std::log1p(std::exp(1.0)), 4 * test::roundoff<TypeParam>());
    EXPECT_EQ(logits[1], TypeParam{0});
    EXPECT_EQ(logits[3], TypeParam{0});
    for (const TypeParam bad :
         {std::numeric_limits<TypeParam>::quiet_NaN(), std::numeric_limits<TypeParam>::infinity()}) {
        std::vector<TypeParam> row{1, bad, 2, 3};
        loss = 0;
        ops::cross_entropy<TypeParam>({},
                                      {row.data(), &target, nullptr, 1, 4, 4, 4, 1.0, ops::Gradient::in_place, &loss});
        EXPECT_FALSE(std::isfinite(loss));
        EXPECT_FALSE(std::isfinite(static_cast<double>(row[1])));
    }
}

TYPED_TEST(CrossEntropyTest, TheLossIsAddedTo) {
    Rows<TypeParam> in(4, 9, 9, 9);
    double loss = 100;
    ops::cross_entropy<TypeParam>(
        {}, {in.logits.data(), in.targets.data(), nullptr, 4, 9, 9, 9, 1, ops::Gradient::none, &loss});
    EXPECT_NEAR(loss, 100 + in.run(1, ops::Gradient::none, false), 1e-12);
}

// h = 1e-5: losses of 20 give a rounding of 2e-15 / h = 2e-10 at most, halved; truncation below 1e-11.
TEST(CrossEntropy, FiniteDifferences) {
    const Rows<double> in(4, 11, 16, 16);
    auto gradient = in;
    gradient.run(0.5, ops::Gradient::in_place);
    for (const i64 i : {i64{0}, i64{7}, i64{16}, i64{2 * 16 + 10}, i64{3 * 16 + 10}, i64{12}}) {
        auto above = in;
        auto below = in;
        above.logits[i] += 1e-5;
        below.logits[i] -= 1e-5;
        const double quotient = 0.5 * (above.run(1, ops::Gradient::none) - below.run(1, ops::Gradient::none)) / 2e-5;
        EXPECT_NEAR(quotient, gradient.logits[i], 3e-10) << i;
    }
}

}  // namespace
}  // namespace ogrom
