// Cross-entropy over ranks that each hold some columns: the three stages with the reductions done here, against the
// fused call and the double reference.
#include "kernels/ops/cross_entropy.h"

#include "tests/kernels/support.h"
#include "tests/reference/cross_entropy.h"

namespace ogrom {
namespace {

template <class T>
class CrossEntropyParts : public ::testing::Test {};
TYPED_TEST_SUITE(CrossEntropyParts, test::Precisions);

template <class T>
struct Whole {
    i64 rows, vocabulary, padded;
    std::vector<T> logits;  // [rows, padded]
    std::vector<std::int32_t> targets;
    std::vector<std::uint8_t> mask;

    Whole(i64 r, i64 v, i64 p, double scale = 5) : rows(r), vocabulary(v), padded(p) {
        logits = test::random_values<T>(r * p, 1, scale);
        for (i64 i = 0; i < r; ++i) {
            targets.push_back(static_cast<std::int32_t>((i * 31 + 7) % v));
            mask.push_back(i % 3 == 1 ? 0 : 1);
        }
        targets.back() = static_cast<std::int32_t>(v - 1);
        mask.back() = 1;
    }
};

// One rank: its columns with three more elements between rows, its reductions' buffers and its loss.
template <class T>
struct Rank {
    i64 first, columns, padded, ld;
    std::vector<T> logits, max;
    std::vector<double> sums;
    double loss = 0;

    Rank(const Whole<T>& whole, i64 first_column, i64 width)
        : first(first_column),
          columns(std::clamp<i64>(whole.vocabulary - first_column, 0, width)),
          padded(width),
          ld(width + 3),
          logits(test::poisoned<T>(whole.rows * ld)),
          max(test::poisoned<T>(whole.rows)),
          sums(test::poisoned<double>(2 * whole.rows)) {
        for (i64 r = 0; r < whole.rows; ++r) {
            std::copy_n(whole.logits.begin() + r * whole.padded + first, width, logits.begin() + r * ld);
        }
    }
    ops::CrossEntropyPart<T> op(const Whole<T>& whole, double scale, ops::Gradient gradient) {
        return {logits.data(),
                whole.targets.data(),
                whole.mask.data(),
                whole.rows,
                ld,
                columns,
                padded,
                first,
                whole.vocabulary,
                scale,
                gradient,
                max.data(),
                sums.data(),
                &loss};
    }
};

// What the ranks come to: the gradient put together, and the loss, which must be the same on all.
template <class T>
struct Result {
    std::vector<T> gradient;
    double loss;
};

template <class T>
Result<T> run(const Whole<T>& whole, i64 parts, double scale, ops::Gradient gradient) {
    const i64 width = whole.padded / parts;
    std::vector<Rank<T>> ranks;
    for (i64 part = 0; part < parts; ++part) {
        ranks.emplace_back(whole, part * width, width);
    }
    std::vector<T> max(static_cast<std::size_t>(whole.rows), -std::numeric_limits<T>::infinity());
    for (Rank<T>& rank : ranks) {
        ops::cross_entropy_max<T>({}, rank.op(whole, scale, gradient));
        std::transform(max.begin(), max.end(), rank.max.begin(), max.begin(), [](T a, T b) { return a > b ? a : b; });
    }
    std::vector<double> sums(static_cast<std::size_t>(2 * whole.rows));
    for (Rank<T>& rank : ranks) {
        rank.max = max;
        ops::cross_entropy_sum<T>({}, rank.op(whole, scale, gradient));
        std::transform(sums.begin(), sums.end(), rank.sums.begin(), sums.begin(), std::plus<>());
    }
    Result<T> result{std::vector<T>(whole.logits.size()), 0};
    for (Rank<T>& rank : ranks) {
        rank.sums = sums;
        ops::cross_entropy_finish<T>({}, rank.op(whole, scale, gradient));
        EXPECT_EQ(std::memcmp(&rank.loss, &ranks.front().loss, sizeof(double)), 0);  // a NaN too
        for (i64 r = 0; r < whole.rows; ++r) {
            const auto row = rank.logits.begin() + r * rank.ld;
            std::copy_n(row, width, result.gradient.begin() + r * whole.padded + rank.first);
            EXPECT_TRUE(std::all_of(row + width, row + rank.ld, [](T v) { return std::isnan(v); })) << "row " << r;
        }
    }
    result.loss = ranks.front().loss;
    return result;
}

template <class T>
Result<T> fused(Whole<T> whole, double scale, ops::Gradient gradient) {
    double loss = 0;
    ops::cross_entropy<T>({}, {whole.logits.data(), whole.targets.data(), whole.mask.data(), whole.rows,
                               whole.vocabulary, whole.padded, whole.padded, scale, gradient, &loss});
    return {whole.logits, loss};
}

// As of the fused call (cross_entropy.cpp): 16 roundoffs relative of p <= 1; the loss by less than one roundoff a row,
// at random, and the additions in double.
constexpr double bound = 16;

template <class T>
double loss_bound(i64 rows, double loss) {
    return test::roundoff<T>() * std::sqrt(static_cast<double>(rows)) + 2 * test::roundoff<double>() * loss;
}

template <class T>
void check(i64 rows, i64 vocabulary, i64 padded) {
    const Whole<T> whole(rows, vocabulary, padded);
    const double scale = 0.25;
    const auto want =
        reference::cross_entropy(test::to_double(whole.logits), whole.targets, whole.mask, vocabulary, padded, scale);
    const double u = test::roundoff<T>();
    for (const i64 parts : {1, 2, 3, 4}) {
        SCOPED_TRACE(parts);
        const Result<T> got = run(whole, parts, scale, ops::Gradient::in_place);
        test::expect_near(got.gradient, want.gradient, bound * u, scale);
        EXPECT_NEAR(got.loss, want.loss_sum, loss_bound<T>(rows, want.loss_sum));
        const Result<T> evaluated = run(whole, parts, scale, ops::Gradient::none);
        EXPECT_EQ(evaluated.loss, got.loss);
        EXPECT_TRUE(test::same_bits(evaluated.gradient, whole.logits));
        for (i64 i = 0; i < rows * padded; ++i) {
            if (whole.mask[i / padded] == 0 || i % padded >= vocabulary) {
                ASSERT_EQ(got.gradient[i], T{0}) << i;
            }
        }
    }
}

TYPED_TEST(CrossEntropyParts, EqualTheReference) {
    check<TypeParam>(5, 13, 24);  // the last of 3 and 4 ranks, and half of another, hold padding only
    check<TypeParam>(7, 37, 48);
    check<TypeParam>(4, 1009, 1020);
    check<TypeParam>(1030, 17, 24);  // more rows than are held at a time
}

TYPED_TEST(CrossEntropyParts, OneRankGivesTheBitsOfTheFusedCall) {
    const Whole<TypeParam> whole(1030, 37, 48);
    for (const ops::Gradient gradient : {ops::Gradient::none, ops::Gradient::in_place}) {
        const auto got = run(whole, 1, 0.3, gradient);
        const auto want = fused(whole, 0.3, gradient);
        EXPECT_EQ(got.loss, want.loss);
        EXPECT_TRUE(test::same_bits(got.gradient, want.gradient));
    }
}

// B07: 5 words stored as 8 over 4 ranks (2, 2, 1 and no true column), equal logits, whatever the padding holds.
TYPED_TEST(CrossEntropyParts, B07PaddingTakesNoProbability) {
    using T = TypeParam;
    for (const double padding : {0.0, 80.0, std::numeric_limits<double>::quiet_NaN()}) {
        for (const i64 parts : {1, 2, 4}) {
            Whole<T> whole(2, 5, 8);
            whole.mask = {1, 1};
            for (i64 i = 0; i < 16; ++i) {
                whole.logits[i] = i % 8 < 5 ? T{0} : static_cast<T>(padding);
            }
            whole.targets = {0, 4};
            const auto got = run(whole, parts, 1.0, ops::Gradient::in_place);
            EXPECT_NEAR(got.loss, 2 * std::log(5.0), 4 * test::roundoff<double>() * got.loss);  // exponentials are 1
            for (i64 i = 0; i < 16; ++i) {
                const double want = i % 8 >= 5 ? 0 : (i % 8 == whole.targets[i / 8] ? 0.2 - 1 : 0.2);
                EXPECT_NEAR(static_cast<double>(got.gradient[i]), want, 2 * test::roundoff<T>()) << i;
            }
        }
    }
}

TYPED_TEST(CrossEntropyParts, B07Gpt2Vocabulary) {
    Whole<TypeParam> whole(1, 50257, 50304);
    std::fill(whole.logits.begin(), whole.logits.end(), TypeParam{1.5});
    whole.targets = {50256};
    for (const i64 parts : {1, 2, 4}) {
        // ln 50257 = 10.8249; ln 50304 = 10.8258. Sums of ones are exact.
        EXPECT_NEAR(run(whole, parts, 1.0, ops::Gradient::none).loss, std::log(50257.0), 1e-14) << parts;
    }
}

TYPED_TEST(CrossEntropyParts, B07ATargetBeyondTheVocabularyIsABrokenPromise) {
    Whole<TypeParam> whole(3, 13, 24);
    whole.mask = {1, 0, 1};
    whole.targets = {0, 13, 12};  // the masked one may be anything
    EXPECT_TRUE(std::isfinite(run(whole, 2, 1.0, ops::Gradient::in_place).loss));
    EXPECT_TRUE(std::isfinite(fused(whole, 1.0, ops::Gradient::in_place).loss));
    for (const std::int32_t target : {13, -1}) {
        whole.targets[2] = target;
        EXPECT_THROW(run(whole, 2, 1.0, ops::Gradient::in_place), Error);
        EXPECT_THROW(fused(whole, 1.0, ops::Gradient::in_place), Error);
    }
}

// B05: masked rows are not read, on no rank; all of them masked gives exactly nothing.
TYPED_TEST(CrossEntropyParts, B05MaskedRowsDoNotTouchTheOthers) {
    const Whole<TypeParam> whole(9, 33, 40);
    auto poisoned = whole;
    for (i64 r = 1; r < 8; r += 3) {
        std::fill_n(poisoned.logits.begin() + r * 40, 40, std::numeric_limits<TypeParam>::quiet_NaN());
    }
    const auto got = run(poisoned, 4, 0.5, ops::Gradient::in_place);
    const auto want = run(whole, 4, 0.5, ops::Gradient::in_place);
    EXPECT_EQ(got.loss, want.loss);
    EXPECT_TRUE(test::same_bits(got.gradient, want.gradient));
    std::fill(poisoned.mask.begin(), poisoned.mask.end(), std::uint8_t{0});
    std::fill(poisoned.targets.begin(), poisoned.targets.end(), -1);
    const auto nothing = run(poisoned, 4, 0.5, ops::Gradient::in_place);
    EXPECT_EQ(nothing.loss, 0.0);
    EXPECT_EQ(nothing.gradient, std::vector<TypeParam>(9 * 40, TypeParam{0}));
}

// A NaN or +Inf on one rank shows in the loss of all; -Inf is a probability of 0.
TYPED_TEST(CrossEntropyParts, NanShowsAndLargeLogitsDoNotOverflow) {
    using T = TypeParam;
    Whole<T> whole(1, 8, 8);
    whole.logits = {1000, -1000, 999, -std::numeric_limits<T>::infinity(), -1000, -1000, -1000, -1000};
    whole.targets = {2};
    const auto got = run(whole, 4, 1.0, ops::Gradient::in_place);
    EXPECT_NEAR(got.loss, std::log1p(std::exp(1.0)), 4 * test::roundoff<T>());
    EXPECT_EQ(got.gradient[3], T{0});
    for (const T bad : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
        for (const i64 place : {0, 3, 7}) {
            auto broken = whole;
            broken.logits[place] = bad;
            EXPECT_FALSE(std::isfinite(run(broken, 4, 1.0, ops::Gradient::in_place).loss)) << place;
        }
    }
}

TYPED_TEST(CrossEntropyParts, TheScaleCanBeReadWhereTheKernelRuns) {
    using T = TypeParam;
    const Whole<T> whole(6, 13, 16);
    const double scale = 0.3;
    auto by_pointer = whole;
    double loss = 0;
    ops::cross_entropy<T>({}, {by_pointer.logits.data(), whole.targets.data(), whole.mask.data(), 6, 13, 16, 16,
                               std::numeric_limits<double>::quiet_NaN(), ops::Gradient::in_place, &loss, &scale});
    EXPECT_TRUE(test::same_bits(by_pointer.logits, fused(whole, scale, ops::Gradient::in_place).gradient));
    Rank<T> by_value(whole, 0, 16);
    Rank<T> part(whole, 0, 16);
    auto op = by_value.op(whole, scale, ops::Gradient::in_place);
    auto op_at = part.op(whole, std::numeric_limits<double>::quiet_NaN(), ops::Gradient::in_place);
    op_at.scale_at = &scale;
    for (const auto& each : {op, op_at}) {
        ops::cross_entropy_max<T>({}, each);
        ops::cross_entropy_sum<T>({}, each);
        ops::cross_entropy_finish<T>({}, each);
    }
    EXPECT_TRUE(std::equal(part.logits.begin(), part.logits.begin() + 16, by_value.logits.begin()));
}

TYPED_TEST(CrossEntropyParts, TheLossIsAddedToInAscendingRows) {
    const Whole<TypeParam> whole(1100, 13, 16);
    const auto want = run(whole, 2, 1.0, ops::Gradient::in_place);
    for (const int threads : {1, 3, 7}) {
        const test::Threads scope(threads);
        const auto got = run(whole, 2, 1.0, ops::Gradient::in_place);
        EXPECT_EQ(got.loss, want.loss);
        EXPECT_TRUE(test::same_bits(got.gradient, want.gradient));
    }
    Rank<TypeParam> rank(whole, 0, 16);
    rank.loss = 100;
    const auto op = rank.op(whole, 1.0, ops::Gradient::none);
    ops::cross_entropy_max<TypeParam>({}, op);
    ops::cross_entropy_sum<TypeParam>({}, op);
    ops::cross_entropy_finish<TypeParam>({}, op);
    // 733 additions to numbers below 8192, in double, at random.
    EXPECT_NEAR(rank.loss - 100, fused(whole, 1.0, ops::Gradient::none).loss, 10 * 8192 * test::roundoff<double>());
}

// h = 1e-5: losses of 20 give a rounding of 2e-15 / h = 2e-10 at most, halved; truncation below 1e-11.
TEST(CrossEntropyPartsGradient, FiniteDifferences) {
    const Whole<double> whole(4, 11, 16);
    const auto gradient = run(whole, 4, 0.5, ops::Gradient::in_place).gradient;
    for (const i64 i : {i64{0}, i64{7}, i64{2 * 16 + 10}, i64{3 * 16 + 10}, i64{12}, i64{16}}) {
        auto above = whole;
        auto below = whole;
        above.logits[i] += 1e-5;
        below.logits[i] -= 1e-5;
        const double quotient =
            0.5 * (run(above, 4, 1, ops::Gradient::none).loss - run(below, 4, 1, ops::Gradient::none).loss) / 2e-5;
        EXPECT_NEAR(quotient, gradient[i], 3e-10) << i;
    }
}

}  // namespace
}  // namespace ogrom
