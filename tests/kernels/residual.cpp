#include "kernels/ops/residual.h"

#include "kernels/ops/residual_norm.h"

#include "tests/kernels/support.h"
#include "tests/reference/residual.h"

namespace ogrom {
namespace {

template <class T>
class ResidualTest : public ::testing::Test {};
TYPED_TEST_SUITE(ResidualTest, test::Precisions);

constexpr i64 B = 3;
constexpr i64 length = 5;
const std::vector<i64> samples{6, 0, 1234567};

ops::DropoutSpec drop(double p) {
    return {p, 77, 10, 3};
}

template <class T>
void check_forward(i64 C, double p, bool with_bias) {
    const auto x = test::random_values<T>(B * length * C, 1);
    const auto branch = test::random_values<T>(B * length * C, 2);
    const auto bias = test::random_values<T>(C, 3);
    const i64* sample = p > 0 ? samples.data() : nullptr;
    auto y = test::poisoned<T>(B * length * C);
    ops::residual_forward<T>(
        {}, {y.data(), x.data(), branch.data(), with_bias ? bias.data() : nullptr, B, length, C, sample, drop(p)});
    const auto want =
        reference::residual_forward({B, length, C, sample, drop(p)}, test::to_double(x), test::to_double(branch),
                                    with_bias ? test::to_double(bias) : std::vector<double>{});
    // Two sums, a rounded factor and a product of values below 1 + 2 / (1 - p).
    test::expect_near(y, want, 4 * test::roundoff<T>(), 1 + 2 / (1 - p));
    auto in_place = x;
    ops::residual_forward<T>({}, {in_place.data(), in_place.data(), branch.data(), with_bias ? bias.data() : nullptr, B,
                                  length, C, sample, drop(p)});
    EXPECT_EQ(in_place, y);
    in_place = branch;
    ops::residual_forward<T>({}, {in_place.data(), x.data(), in_place.data(), with_bias ? bias.data() : nullptr, B,
                                  length, C, sample, drop(p)});
    EXPECT_EQ(in_place, y);
}

TYPED_TEST(ResidualTest, ForwardEqualsTheReferenceAndWorksInPlace) {
    for (const i64 C : {i64{1}, i64{39}, i64{1100}}) {
        for (const double p : {0.0, 0.25}) {
            check_forward<TypeParam>(C, p, true);
            check_forward<TypeParam>(C, p, false);
        }
    }
}

TYPED_TEST(ResidualTest, BackwardUsesTheMaskOfTheForwardPass) {
    for (const i64 C : {i64{3}, i64{39}, i64{1100}}) {
        auto d_y = test::random_values<TypeParam>(B * length * C, 4);
        auto d_branch = test::poisoned<TypeParam>(B * length * C);
        ops::dropout_backward<TypeParam>({}, {d_branch.data(), d_y.data(), B, length, C, samples.data(), drop(0.4)});
        const auto want = reference::dropout_backward({B, length, C, samples.data(), drop(0.4)}, test::to_double(d_y));
        test::expect_near(d_branch, want, 2 * test::roundoff<TypeParam>(), 2);  // a rounded factor and a product
        ops::dropout_backward<TypeParam>({}, {d_y.data(), d_y.data(), B, length, C, samples.data(), drop(0.4)});
        EXPECT_EQ(d_y, d_branch);
    }
}

TYPED_TEST(ResidualTest, NoDropoutHandsTheGradientOn) {
    const auto d_y = test::random_values<TypeParam>(B * length * 9, 4);
    auto d_branch = test::poisoned<TypeParam>(B * length * 9);
    ops::dropout_backward<TypeParam>({}, {d_branch.data(), d_y.data(), B, length, 9, nullptr, drop(0)});
    EXPECT_EQ(d_branch, d_y);
}

// The mask belongs to the sample, not to its place in the micro-batch: any cut gives the same rows.
TYPED_TEST(ResidualTest, TheMaskFollowsTheSample) {
    const i64 C = 50;
    const std::vector<TypeParam> ones(static_cast<std::size_t>(B * length * C), TypeParam{1});
    std::vector<TypeParam> together(ones.size());
    std::vector<TypeParam> alone(static_cast<std::size_t>(length * C));
    ops::dropout_backward<TypeParam>({}, {together.data(), ones.data(), B, length, C, samples.data(), drop(0.5)});
    for (i64 b = 0; b < B; ++b) {
        ops::dropout_backward<TypeParam>({}, {alone.data(), ones.data(), 1, length, C, &samples[b], drop(0.5)});
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + b * length * C));
    }
}

TYPED_TEST(ResidualTest, ADroppedElementIsZeroWhateverItWas) {
    const i64 C = 64;
    const std::vector<TypeParam> nans = test::poisoned<TypeParam>(C);
    std::vector<TypeParam> out(C);
    const i64 sample = 0;
    ops::dropout_backward<TypeParam>({}, {out.data(), nans.data(), 1, 1, C, &sample, drop(0.5)});
    const auto kept = std::count_if(out.begin(), out.end(), [](TypeParam v) { return std::isnan(v); });
    const auto zeros = std::count(out.begin(), out.end(), TypeParam{0});
    EXPECT_EQ(kept + zeros, C);
    EXPECT_GT(zeros, 10);
    EXPECT_GT(kept, 10);
}

// A sequence of 17 positions over 3 ranks of 5, 6 and 6: each draws the masks of its positions in the whole.
constexpr i64 whole_length = 17;
constexpr std::pair<i64, i64> cuts[] = {{0, 5}, {5, 11}, {11, 17}};

TYPED_TEST(ResidualTest, APartOfTheSequenceDrawsTheMasksOfTheWhole) {
    using T = TypeParam;
    for (const i64 C : {i64{3}, i64{39}, i64{1100}}) {
        const auto x = test::random_values<T>(B * whole_length * C, 1);
        const auto branch = test::random_values<T>(B * whole_length * C, 2);
        const auto bias = test::random_values<T>(C, 3);
        auto y = test::poisoned<T>(B * whole_length * C);
        auto d_branch = y;
        ops::residual_forward<T>(
            {}, {y.data(), x.data(), branch.data(), bias.data(), B, whole_length, C, samples.data(), drop(0.4)});
        ops::dropout_backward<T>({}, {d_branch.data(), x.data(), B, whole_length, C, samples.data(), drop(0.4)});
        for (const auto& [first, last] : cuts) {
            const auto x_part = test::positions_of(x, whole_length, C, first, last);
            const auto branch_part = test::positions_of(branch, whole_length, C, first, last);
            auto part = test::poisoned<T>(B * (last - first) * C);
            ops::residual_forward<T>({}, {part.data(), x_part.data(), branch_part.data(), bias.data(), B, last - first,
                                          C, samples.data(), drop(0.4), first, whole_length});
            EXPECT_TRUE(test::same_bits(part, test::positions_of(y, whole_length, C, first, last)));
            const reference::Residual place{B, last - first, C, samples.data(), drop(0.4), first, whole_length};
            // As forward of the whole.
            test::expect_near(part,
                              reference::residual_forward(place, test::to_double(x_part), test::to_double(branch_part),
                                                          test::to_double(bias)),
                              4 * test::roundoff<T>(), 1 + 2 / 0.6);
            auto d_part = test::poisoned<T>(B * (last - first) * C);
            ops::dropout_backward<T>(
                {}, {d_part.data(), x_part.data(), B, last - first, C, samples.data(), drop(0.4), first, whole_length});
            EXPECT_TRUE(test::same_bits(d_part, test::positions_of(d_branch, whole_length, C, first, last)));
        }
    }
}

TYPED_TEST(ResidualTest, TheStepCanBeReadWhereTheKernelRuns) {
    const i64 C = 60;
    const auto d_y = test::random_values<TypeParam>(B * length * C, 4);
    const auto run = [&](const ops::DropoutSpec& spec) {
        auto out = test::poisoned<TypeParam>(B * length * C);
        ops::dropout_backward<TypeParam>({}, {out.data(), d_y.data(), B, length, C, samples.data(), spec});
        return out;
    };
    u32 step = 3;
    ops::DropoutSpec spec = drop(0.5);
    spec.step = 99;
    spec.step_at = &step;
    EXPECT_TRUE(test::same_bits(run(spec), run(drop(0.5))));
    step = 4;
    EXPECT_NE(run(spec), run(drop(0.5)));
}

// sum(w * y) is linear in the branch: the difference quotient is the gradient up to rounding.
TEST(Residual, FiniteDifferences) {
    const i64 C = 11;
    const auto x = test::random_values<double>(B * length * C, 1);
    auto branch = test::random_values<double>(B * length * C, 2);
    const auto w = test::random_values<double>(B * length * C, 5);
    std::vector<double> gradient(w.size());
    ops::dropout_backward<double>({}, {gradient.data(), w.data(), B, length, C, samples.data(), drop(0.3)});
    const auto objective = [&] {
        std::vector<double> y(w.size());
        ops::residual_forward<double>(
            {}, {y.data(), x.data(), branch.data(), nullptr, B, length, C, samples.data(), drop(0.3)});
        double sum = 0;
        for (std::size_t i = 0; i < y.size(); ++i) {
            sum += w[i] * y[i];
        }
        return sum;
    };
    for (std::size_t i = 0; i < branch.size(); i += 17) {
        const double before = branch[i];
        branch[i] = before + 0.5;
        const double above = objective();
        branch[i] = before - 0.5;
        const double below = objective();
        branch[i] = before;
        EXPECT_NEAR(above - below, gradient[i], 7e-14);  // sums of 165 terms below 3 reach 30: 4e-15 a rounding
    }
}

TYPED_TEST(ResidualTest, AddBiasKeepsToItsColumns) {
    const i64 rows = 6;
    const i64 cols = 13;
    const i64 ld = 17;
    auto y = test::random_values<TypeParam>(rows * ld, 1);
    const auto before = y;
    const auto bias = test::random_values<TypeParam>(cols, 2);
    ops::add_bias<TypeParam>({}, {y.data(), bias.data(), rows, cols, ld});
    for (i64 i = 0; i < rows * ld; ++i) {
        EXPECT_EQ(y[i], i % ld < cols ? before[i] + bias[i % ld] : before[i]);
    }
    const auto after = y;
    ops::add_bias<TypeParam>({}, {y.data(), nullptr, rows, cols, ld});
    EXPECT_EQ(y, after);
}

TYPED_TEST(ResidualTest, WithTheNormBehindItGivesTheBitsOfBoth) {
    using T = TypeParam;
    constexpr i64 C = 67, rows = B * length;
    const auto x = test::random_values<T>(rows * C, 1), branch = test::random_values<T>(rows * C, 2);
    const auto bias = test::random_values<T>(C, 3), gamma = test::random_values<T>(C, 4);
    auto y = test::poisoned<T>(rows * C), norm = y, two_y = y, two_norm = y;
    auto mean = test::poisoned<T>(rows), rstd = mean, two_mean = mean, two_rstd = mean;
    ops::ResidualForward<T> residual{y.data(),
                                     x.data(),
                                     branch.data(),
                                     bias.data(),
                                     B,
                                     length,
                                     C,
                                     samples.data(),
                                     {.p = 0.3, .seed = 5, .site = 6, .step = 7}};
    ops::residual_norm_forward<T>({}, {residual, norm.data(), mean.data(), rstd.data(), gamma.data(), nullptr, 1e-5});
    residual.y = two_y.data();
    ops::residual_forward<T>({}, residual);
    ops::layernorm_forward<T>(
        {}, {two_norm.data(), two_mean.data(), two_rstd.data(), two_y.data(), gamma.data(), nullptr, rows, C, 1e-5});
    EXPECT_TRUE(test::same_bits(y, two_y));
    EXPECT_TRUE(test::same_bits(norm, two_norm));
    EXPECT_TRUE(test::same_bits(mean, two_mean));
    EXPECT_TRUE(test::same_bits(rstd, two_rstd));
    EXPECT_TRUE(std::isfinite(static_cast<double>(norm[0])));
}

}  // namespace
}  // namespace ogrom
