#include "kernels/ops/layernorm.h"

#include "tests/kernels/support.h"
#include "tests/reference/layernorm.h"

namespace ogrom {
namespace {

constexpr double epsilon = 1e-5;

template <class T>
class LayerNormTest : public ::testing::Test {};
TYPED_TEST_SUITE(LayerNormTest, test::Precisions);

template <class T>
struct Inputs {
    i64 rows, C;
    std::vector<T> x, gamma, beta, d_y, mean, rstd;

    Inputs(i64 r, i64 c) : rows(r), C(c) {
        x = test::random_values<T>(r * c, 1, 3);
        gamma = test::random_values<T>(c, 2, 2);
        beta = test::random_values<T>(c, 3);
        d_y = test::random_values<T>(r * c, 4);
        mean = test::poisoned<T>(r);
        rstd = test::poisoned<T>(r);
        std::vector<T> y(x.size());
        ops::layernorm_forward<T>(
            {}, {y.data(), mean.data(), rstd.data(), x.data(), gamma.data(), beta.data(), r, c, epsilon});
    }
    void backward(T* d_x, T* d_gamma, T* d_beta, ops::Accumulate mode) const {
        ops::layernorm_backward<T>(
            {}, {d_x, d_gamma, d_beta, d_y.data(), x.data(), gamma.data(), mean.data(), rstd.data(), rows, C, mode});
    }
    [[nodiscard]] reference::LayerNormGradients wanted() const {
        return reference::layernorm_backward(test::to_double(d_y), test::to_double(x), test::to_double(gamma), rows, C,
                                             epsilon);
    }
};

template <class T>
void check_forward(i64 rows, i64 C, bool with_beta) {
    const Inputs<T> in(rows, C);
    auto y = test::poisoned<T>(rows * C);
    auto mean = test::poisoned<T>(rows);
    auto rstd = test::poisoned<T>(rows);
    ops::layernorm_forward<T>({}, {y.data(), mean.data(), rstd.data(), in.x.data(), in.gamma.data(),
                                   with_beta ? in.beta.data() : nullptr, rows, C, epsilon});
    const auto want =
        reference::layernorm_forward(test::to_double(in.x), test::to_double(in.gamma),
                                     with_beta ? test::to_double(in.beta) : std::vector<double>{}, rows, C, epsilon);
    // Uniform numbers: |xh| < 2, |y| < 5; mean, rstd, difference, two products and a sum: 6 roundings.
    test::expect_near(y, want.y, 6 * test::roundoff<T>(), 5);
    test::expect_near(mean, want.mean, test::roundoff<T>(), 3);
    // The reference's own sum of C terms in double.
    test::expect_near(rstd, want.rstd, 2 * test::roundoff<T>() + static_cast<double>(C) * test::roundoff<double>());
}

TYPED_TEST(LayerNormTest, ForwardEqualsTheReference) {
    for (const i64 C : {i64{5}, i64{16}, i64{37}, i64{768}, i64{1027}}) {
        check_forward<TypeParam>(7, C, true);
        check_forward<TypeParam>(3, C, false);
    }
}

TYPED_TEST(LayerNormTest, AConstantRowGivesBeta) {
    const i64 C = 9;
    const std::vector<TypeParam> x(C, TypeParam{4});
    const auto gamma = test::random_values<TypeParam>(C, 2);
    const auto beta = test::random_values<TypeParam>(C, 3);
    auto y = test::poisoned<TypeParam>(C);
    ops::layernorm_forward<TypeParam>({},
                                      {y.data(), nullptr, nullptr, x.data(), gamma.data(), beta.data(), 1, C, epsilon});
    EXPECT_EQ(y, beta);
}

// A large common offset must not eat the variance (two passes, sums in double).
TYPED_TEST(LayerNormTest, ALargeMeanKeepsTheVariance) {
    const i64 C = 512;
    std::vector<TypeParam> x(C);
    for (i64 c = 0; c < C; ++c) {
        x[c] = static_cast<TypeParam>(4096 + (c % 2 == 0 ? 1 : -1));
    }
    const std::vector<TypeParam> gamma(C, TypeParam{1});
    auto rstd = test::poisoned<TypeParam>(1);
    auto y = test::poisoned<TypeParam>(C);
    ops::layernorm_forward<TypeParam>({}, {y.data(), nullptr, rstd.data(), x.data(), gamma.data(), nullptr, 1, C, 0});
    EXPECT_EQ(rstd[0], TypeParam{1});
    EXPECT_EQ(y[0], TypeParam{1});
}

template <class T>
void check_backward(i64 rows, i64 C) {
    const Inputs<T> in(rows, C);
    auto d_x = test::poisoned<T>(rows * C);
    auto d_gamma = test::random_values<T>(C, 5);
    auto d_beta = test::random_values<T>(C, 6);
    auto want = in.wanted();
    for (i64 c = 0; c < C; ++c) {
        want.d_gamma[c] += static_cast<double>(d_gamma[c]);
        want.d_beta[c] += static_cast<double>(d_beta[c]);
    }
    in.backward(d_x.data(), d_gamma.data(), d_beta.data(), ops::Accumulate::overwrite);
    // rstd < 1 times |g| < 2 and |xh mean(g xh)| < 1.5: some 8 roundings of terms below 3.5.
    test::expect_near(d_x, want.d_x, 8 * test::roundoff<T>(), 3.5);
    // Sums in double: what remains is the 10 roundings of a term (|dy xh| < width), of random sign: sqrt(rows), plus
    // the last one of the result.
    const double root = std::sqrt(static_cast<double>(rows));
    test::expect_near(d_gamma, want.d_gamma, 10 * test::roundoff<T>(), 3 * root);
    test::expect_near(d_beta, want.d_beta, 2 * test::roundoff<T>(), 3 * root);
}

TYPED_TEST(LayerNormTest, BackwardEqualsTheReference) {
    check_backward<TypeParam>(1, 5);
    check_backward<TypeParam>(33, 37);  // a last block of one row
    check_backward<TypeParam>(71, 300);
    check_backward<TypeParam>(2100, 17);  // more than 64 x 32 rows
}

TYPED_TEST(LayerNormTest, BackwardAddsWhereAskedAndNeedsNoBeta) {
    const Inputs<TypeParam> in(35, 21);
    auto overwritten = test::poisoned<TypeParam>(35 * 21);
    auto added = test::random_values<TypeParam>(35 * 21, 7);
    const auto before = added;
    std::vector<TypeParam> d_gamma(21);
    in.backward(overwritten.data(), d_gamma.data(), nullptr, ops::Accumulate::overwrite);
    in.backward(added.data(), d_gamma.data(), nullptr, ops::Accumulate::add);
    for (std::size_t i = 0; i < added.size(); ++i) {
        // One rounding of a sum below 4, contracted or not.
        ASSERT_NEAR(added[i], before[i] + overwritten[i], 8 * test::roundoff<TypeParam>());
    }
}

// Split backward: d_x alone now, the parameters' gradients alone later.
TYPED_TEST(LayerNormTest, EachGradientCanBeMadeAlone) {
    using T = TypeParam;
    const Inputs<T> in(71, 37);
    auto d_x = test::poisoned<T>(71 * 37);
    auto d_x_alone = d_x;
    auto d_gamma = test::random_values<T>(37, 5);
    auto d_beta = test::random_values<T>(37, 6);
    auto gamma_alone = d_gamma;
    auto beta_alone = d_beta;
    in.backward(d_x.data(), d_gamma.data(), d_beta.data(), ops::Accumulate::overwrite);
    in.backward(d_x_alone.data(), nullptr, nullptr, ops::Accumulate::overwrite);
    in.backward(nullptr, gamma_alone.data(), nullptr, ops::Accumulate::overwrite);
    in.backward(nullptr, nullptr, beta_alone.data(), ops::Accumulate::overwrite);
    EXPECT_TRUE(test::same_bits(d_x_alone, d_x));
    EXPECT_TRUE(test::same_bits(gamma_alone, d_gamma));
    EXPECT_TRUE(test::same_bits(beta_alone, d_beta));
}

TYPED_TEST(LayerNormTest, ABufferOfZerosAddedLaterGivesTheSameBits) {
    using T = TypeParam;
    const Inputs<T> in(2100, 37);
    auto d_x = test::poisoned<T>(2100 * 37);
    auto direct = test::random_values<T>(2 * 37, 5, 40);
    auto later = direct;
    std::vector<T> aside(2 * 37);
    in.backward(d_x.data(), direct.data(), direct.data() + 37, ops::Accumulate::overwrite);
    in.backward(d_x.data(), aside.data(), aside.data() + 37, ops::Accumulate::overwrite);
    for (std::size_t i = 0; i < later.size(); ++i) {
        later[i] += aside[i];
    }
    EXPECT_TRUE(test::same_bits(later, direct));
}

TYPED_TEST(LayerNormTest, ForwardAgainGivesTheSameBits) {
    using T = TypeParam;
    const Inputs<T> in(9, 333);
    const auto run = [&](int threads) {
        const test::Threads scope(threads);
        auto all = test::poisoned<T>(9 * 333 + 18);
        ops::layernorm_forward<T>({}, {all.data(), all.data() + 9 * 333, all.data() + 9 * 333 + 9, in.x.data(),
                                       in.gamma.data(), in.beta.data(), 9, 333, epsilon});
        return all;
    };
    const auto first = run(1);
    EXPECT_TRUE(test::same_bits(run(1), first));
    EXPECT_TRUE(test::same_bits(run(3), first));
    // The rows of a rank that holds some positions, with the statistics not kept.
    auto part = test::poisoned<T>(4 * 333);
    ops::layernorm_forward<T>(
        {}, {part.data(), nullptr, nullptr, in.x.data() + 3 * 333, in.gamma.data(), in.beta.data(), 4, 333, epsilon});
    EXPECT_TRUE(test::same_bits(part, {first.begin() + 3 * 333, first.begin() + 7 * 333}));
}

TYPED_TEST(LayerNormTest, DXMayTakeThePlaceOfDY) {
    Inputs<TypeParam> in(40, 33);
    std::vector<TypeParam> apart(in.d_y.size());
    std::vector<TypeParam> gamma1(33);
    auto gamma2 = gamma1;
    in.backward(apart.data(), gamma1.data(), nullptr, ops::Accumulate::overwrite);
    ops::layernorm_backward<TypeParam>(
        {}, {in.d_y.data(), gamma2.data(), nullptr, in.d_y.data(), in.x.data(), in.gamma.data(), in.mean.data(),
             in.rstd.data(), 40, 33, ops::Accumulate::overwrite});
    EXPECT_EQ(apart, in.d_y);
    EXPECT_EQ(gamma1, gamma2);
}

TYPED_TEST(LayerNormTest, AnyNumberOfThreadsGivesTheSameBits) {
    const Inputs<TypeParam> in(101, 64);
    std::vector<std::vector<TypeParam>> results;
    for (const int count : {1, 2, 7}) {
        const test::Threads threads(count);
        std::vector<TypeParam> all(in.x.size() + 128);
        in.backward(all.data() + 128, all.data(), all.data() + 64, ops::Accumulate::overwrite);
        results.push_back(all);
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
}

// Central differences with h = 1e-5: rounding 1e-16 / h = 1e-11 of a sum of size 10 (the objective is linear in gamma
// and beta: nothing else), and in x a truncation of h^2 / 6 third derivatives, about 1e-10.
TEST(LayerNorm, FiniteDifferences) {
    Inputs<double> in(4, 13);
    std::vector<double> d_x(in.x.size());
    std::vector<double> d_gamma(13);
    std::vector<double> d_beta(13);
    in.backward(d_x.data(), d_gamma.data(), d_beta.data(), ops::Accumulate::overwrite);
    const auto objective = [&] {
        std::vector<double> y(in.x.size());
        ops::layernorm_forward<double>(
            {}, {y.data(), nullptr, nullptr, in.x.data(), in.gamma.data(), in.beta.data(), in.rows, in.C, epsilon});
        double sum = 0;
        for (std::size_t i = 0; i < y.size(); ++i) {
            sum += y[i] * in.d_y[i];
        }
        return sum;
    };
    const auto quotient = [&](double& value) {
        const double before = value;
        value = before + 1e-5;
        const double above = objective();
        value = before - 1e-5;
        const double below = objective();
        value = before;
        return (above - below) / 2e-5;
    };
    for (const std::size_t i : {0U, 14U, 51U}) {
        EXPECT_NEAR(quotient(in.x[i]), d_x[i], 5e-10);
    }
    for (const std::size_t c : {0U, 7U, 12U}) {
        EXPECT_NEAR(quotient(in.gamma[c]), d_gamma[c], 9e-11);
        EXPECT_NEAR(quotient(in.beta[c]), d_beta[c], 9e-11);
    }
}

}  // namespace
}  // namespace ogrom
