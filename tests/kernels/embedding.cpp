#include "kernels/ops/embedding.h"

#include "kernels/ops/residual.h"

#include "tests/kernels/support.h"
#include "tests/reference/embedding.h"

namespace ogrom {
namespace {

template <class T>
class EmbeddingTest : public ::testing::Test {};
TYPED_TEST_SUITE(EmbeddingTest, test::Precisions);

struct Case {
    i64 B = 3, T = 7, C = 37, vocabulary = 11, padded = 16;
    double p = 0;
    std::vector<std::int32_t> tokens, positions;
    std::vector<i64> sample;
    ops::DropoutSpec dropout;

    explicit Case(double drop, i64 width = 37) : C(width), p(drop), dropout{drop, 9, 4, 12} {
        for (i64 r = 0; r < B * T; ++r) {
            tokens.push_back(static_cast<std::int32_t>((r * r + 3 * r) % vocabulary));
            positions.push_back(static_cast<std::int32_t>(r % T));
        }
        tokens[5] = static_cast<std::int32_t>(vocabulary - 1);
        sample = {40, 2, 17};
    }
    [[nodiscard]] reference::Embedding reference() const {
        return {B, T, C, tokens.data(), positions.data(), sample.data(), dropout};
    }
};

template <class T>
void check_forward(const Case& c, bool with_positions) {
    const auto token_table = test::random_values<T>(c.padded * c.C, 1);
    const auto position_table = test::random_values<T>(c.T * c.C, 2);
    auto y = test::poisoned<T>(c.B * c.T * c.C);
    ops::embedding_forward<T>({}, {y.data(), token_table.data(), with_positions ? position_table.data() : nullptr,
                                   c.tokens.data(), c.positions.data(), c.B, c.T, c.C, c.sample.data(), c.dropout});
    const auto want =
        reference::embedding_forward(c.reference(), test::to_double(token_table),
                                     with_positions ? test::to_double(position_table) : std::vector<double>{});
    // A sum, a rounded factor and a product: 3 roundings of values below 2 / (1 - p).
    test::expect_near(y, want, 3 * test::roundoff<T>(), 2 / (1 - c.p));
}

TYPED_TEST(EmbeddingTest, ForwardEqualsTheReference) {
    check_forward<TypeParam>(Case(0), true);
    check_forward<TypeParam>(Case(0), false);
    check_forward<TypeParam>(Case(0.3), true);
    check_forward<TypeParam>(Case(0.3, 1031), true);  // masks in several tiles
}

template <class T>
void run_backward(const Case& c, const std::vector<T>& d_y, std::vector<T>* token, std::vector<T>* position) {
    ops::embedding_backward<T>(
        {}, {token == nullptr ? nullptr : token->data(), position == nullptr ? nullptr : position->data(), d_y.data(),
             c.tokens.data(), c.positions.data(), c.B, c.T, c.C, c.vocabulary, c.sample.data(), c.dropout});
}

template <class T>
void check_backward(const Case& c) {
    const auto d_y = test::random_values<T>(c.B * c.T * c.C, 3);
    auto token = test::random_values<T>(c.padded * c.C, 4);
    auto position = test::random_values<T>(c.T * c.C, 5);
    auto want_token = test::to_double(token);
    auto want_position = test::to_double(position);
    run_backward(c, d_y, &token, &position);
    reference::embedding_backward(c.reference(), c.tokens.data(), test::to_double(d_y), want_token);
    reference::embedding_backward(c.reference(), c.positions.data(), test::to_double(d_y), want_position);
    // At most 21 rows meet in one table row, in sums below 21 / (1 - p): sqrt(21) / 2 roundings of them at random.
    test::expect_near(token, want_token, 2 * test::roundoff<T>(), 21 / (1 - c.p));
    test::expect_near(position, want_position, 2 * test::roundoff<T>(), 21 / (1 - c.p));
}

TYPED_TEST(EmbeddingTest, BackwardAddsToTheTables) {
    check_backward<TypeParam>(Case(0));
    check_backward<TypeParam>(Case(0.3));
    check_backward<TypeParam>(Case(0.3, 1031));
}

TYPED_TEST(EmbeddingTest, FrozenTablesAreLeftOut) {
    const Case c(0.1);
    const auto d_y = test::random_values<TypeParam>(c.B * c.T * c.C, 3);
    std::vector<TypeParam> token(static_cast<std::size_t>(c.padded * c.C));
    std::vector<TypeParam> position(static_cast<std::size_t>(c.T * c.C));
    auto alone_token = token;
    auto alone_position = position;
    run_backward<TypeParam>(c, d_y, &token, &position);
    run_backward<TypeParam>(c, d_y, &alone_token, nullptr);
    run_backward<TypeParam>(c, d_y, nullptr, &alone_position);
    EXPECT_EQ(token, alone_token);
    EXPECT_EQ(position, alone_position);
}

TYPED_TEST(EmbeddingTest, PaddingRowsGetExactlyNothing) {
    const Case c(0);
    const auto d_y = test::random_values<TypeParam>(c.B * c.T * c.C, 3);
    std::vector<TypeParam> token(static_cast<std::size_t>(c.padded * c.C));
    run_backward<TypeParam>(c, d_y, &token, nullptr);
    for (i64 i = c.vocabulary * c.C; i < c.padded * c.C; ++i) {
        ASSERT_EQ(token[i], TypeParam{0});
    }
}

TYPED_TEST(EmbeddingTest, AnyNumberOfThreadsGivesTheSameBits) {
    const Case c(0.2, 300);
    const auto d_y = test::random_values<TypeParam>(c.B * c.T * c.C, 3);
    std::vector<TypeParam> one(static_cast<std::size_t>(c.padded * c.C));
    auto many = one;
    {
        const test::Threads threads(1);
        run_backward<TypeParam>(c, d_y, &one, nullptr);
    }
    {
        const test::Threads threads(5);
        run_backward<TypeParam>(c, d_y, &many, nullptr);
    }
    EXPECT_EQ(one, many);
}

TYPED_TEST(EmbeddingTest, ATokenBeyondTheVocabularyIsABrokenPromise) {
    Case c(0);
    const auto d_y = test::random_values<TypeParam>(c.B * c.T * c.C, 3);
    std::vector<TypeParam> token(static_cast<std::size_t>(c.padded * c.C));
    c.tokens[0] = static_cast<std::int32_t>(c.vocabulary);
    EXPECT_THROW(run_backward<TypeParam>(c, d_y, &token, nullptr), Error);
    c.tokens[0] = -1;
    EXPECT_THROW(run_backward<TypeParam>(c, d_y, &token, nullptr), Error);
}

// The vocabulary of 16 rows (11 true) over 2, 3 and 4 ranks, the last part short where it does not divide.
template <class T>
void check_vocabulary_cut(const Case& c, i64 parts) {
    const i64 n = c.B * c.T * c.C;
    const auto token_table = test::random_values<T>(c.padded * c.C, 1);
    const auto position_table = test::random_values<T>(c.T * c.C, 2);
    const auto d_y = test::random_values<T>(n, 3);
    auto whole = test::poisoned<T>(n);
    ops::embedding_forward<T>({}, {whole.data(), token_table.data(), position_table.data(), c.tokens.data(),
                                   c.positions.data(), c.B, c.T, c.C, c.sample.data(), c.dropout});
    auto d_whole = test::random_values<T>(c.padded * c.C, 4);
    auto d_cut = d_whole;
    run_backward<T>(c, d_y, &d_whole, nullptr);
    std::vector<T> sum(static_cast<std::size_t>(n));
    const i64 rows = ceil_div(c.padded, parts);
    for (i64 first = 0; first < c.padded; first += rows) {
        const i64 held = std::min(rows, c.padded - first);
        auto part = test::poisoned<T>(n);
        ops::embedding_forward<T>({}, {part.data(),
                                       token_table.data() + first * c.C,
                                       nullptr,
                                       c.tokens.data(),
                                       nullptr,
                                       c.B,
                                       c.T,
                                       c.C,
                                       nullptr,
                                       {},
                                       0,
                                       0,
                                       first,
                                       held});
        for (i64 i = 0; i < n; ++i) {
            const i64 token = c.tokens[i / c.C];
            ASSERT_EQ(part[i], token >= first && token < first + held ? token_table[token * c.C + i % c.C] : T{0});
            sum[i] += part[i];
        }
        ops::embedding_backward<T>({}, {d_cut.data() + first * c.C, nullptr, d_y.data(), c.tokens.data(), nullptr, c.B,
                                        c.T, c.C, c.vocabulary, c.sample.data(), c.dropout, 0, 0, first, held});
    }
    ops::position_forward<T>(
        {}, {sum.data(), position_table.data(), c.positions.data(), c.B, c.T, c.C, c.sample.data(), c.dropout});
    EXPECT_TRUE(test::same_bits(sum, whole));
    EXPECT_TRUE(test::same_bits(d_cut, d_whole));
}

TYPED_TEST(EmbeddingTest, PartsOfTheVocabularyAddUpToTheWhole) {
    for (const i64 parts : {1, 2, 3, 4}) {
        check_vocabulary_cut<TypeParam>(Case(0), parts);
        check_vocabulary_cut<TypeParam>(Case(0.3), parts);
        check_vocabulary_cut<TypeParam>(Case(0.3, 1031), parts);
    }
}

// After the sum over tensor ranks each rank keeps some positions; its gradient of the position table is a part of a
// sum.
template <class T>
void check_sequence_cut(const Case& c) {
    const auto summed = test::random_values<T>(c.B * c.T * c.C, 1);
    const auto position_table = test::random_values<T>(c.T * c.C, 2);
    const auto d_y = test::random_values<T>(c.B * c.T * c.C, 3);
    auto whole = summed;
    ops::position_forward<T>(
        {}, {whole.data(), position_table.data(), c.positions.data(), c.B, c.T, c.C, c.sample.data(), c.dropout});
    // As embedding_forward.
    test::expect_near(
        whole, reference::position_forward(c.reference(), test::to_double(summed), test::to_double(position_table)),
        3 * test::roundoff<T>(), 2 / (1 - c.p));
    std::vector<T> d_whole(static_cast<std::size_t>(c.T * c.C));
    run_backward<T>(c, d_y, nullptr, &d_whole);
    std::vector<T> d_parts(d_whole.size());
    for (const auto& [first, last] : {std::pair<i64, i64>{0, 3}, {3, 4}, {4, 7}}) {
        const i64 n = last - first;
        const auto tokens = test::positions_of(c.tokens, c.T, 1, first, last);
        const auto positions = test::positions_of(c.positions, c.T, 1, first, last);
        const auto d_part = test::positions_of(d_y, c.T, c.C, first, last);
        auto part = test::positions_of(summed, c.T, c.C, first, last);
        ops::position_forward<T>({}, {part.data(), position_table.data(), positions.data(), c.B, n, c.C,
                                      c.sample.data(), c.dropout, first, c.T});
        EXPECT_TRUE(test::same_bits(part, test::positions_of(whole, c.T, c.C, first, last)));
        const auto token_table = test::random_values<T>(c.padded * c.C, 7);
        auto fused = test::poisoned<T>(c.B * n * c.C);
        ops::embedding_forward<T>({}, {fused.data(), token_table.data(), position_table.data(), tokens.data(),
                                       positions.data(), c.B, n, c.C, c.sample.data(), c.dropout, first, c.T});
        reference::Embedding place{c.B,       n,     c.C, tokens.data(), positions.data(), c.sample.data(),
                                   c.dropout, first, c.T};
        test::expect_near(
            fused, reference::embedding_forward(place, test::to_double(token_table), test::to_double(position_table)),
            3 * test::roundoff<T>(), 2 / (1 - c.p));
        ops::embedding_backward<T>({}, {nullptr, d_parts.data(), d_part.data(), tokens.data(), positions.data(), c.B, n,
                                        c.C, c.vocabulary, c.sample.data(), c.dropout, first, c.T});
    }
    EXPECT_TRUE(test::same_bits(d_parts, d_whole));  // a position lies in one part: its samples are added in one order
}

TYPED_TEST(EmbeddingTest, PartsOfTheSequenceDrawTheMasksOfTheWhole) {
    check_sequence_cut<TypeParam>(Case(0));
    check_sequence_cut<TypeParam>(Case(0.3));
    check_sequence_cut<TypeParam>(Case(0.3, 1031));
}

// The gradient masked once, then both tables without dropout: the bits of the call that masks by itself.
TYPED_TEST(EmbeddingTest, BackwardTakesAMaskedGradientWithoutDropout) {
    using T = TypeParam;
    const Case c(0.3, 600);
    Case plain = c;
    plain.dropout.p = 0;
    auto d_y = test::random_values<T>(c.B * c.T * c.C, 3);
    std::vector<T> token(static_cast<std::size_t>(c.padded * c.C));
    std::vector<T> position(static_cast<std::size_t>(c.T * c.C));
    auto masked_token = token;
    auto masked_position = position;
    run_backward<T>(c, d_y, &token, &position);
    ops::dropout_backward<T>({}, {d_y.data(), d_y.data(), c.B, c.T, c.C, c.sample.data(), c.dropout});
    run_backward<T>(plain, d_y, &masked_token, nullptr);
    run_backward<T>(plain, d_y, nullptr, &masked_position);
    EXPECT_TRUE(test::same_bits(masked_token, token));
    EXPECT_TRUE(test::same_bits(masked_position, position));
}

TYPED_TEST(EmbeddingTest, WithoutPositionsDropoutAloneIsLeft) {
    const Case c(0.3);
    const auto before = test::random_values<TypeParam>(c.B * c.T * c.C, 3);
    auto y = before;
    ops::position_forward<TypeParam>({}, {y.data(), nullptr, nullptr, c.B, c.T, c.C, nullptr, {}});
    EXPECT_EQ(y, before);
    ops::position_forward<TypeParam>({}, {y.data(), nullptr, nullptr, c.B, c.T, c.C, c.sample.data(), c.dropout});
    auto want = test::poisoned<TypeParam>(c.B * c.T * c.C);
    ops::dropout_backward<TypeParam>({}, {want.data(), before.data(), c.B, c.T, c.C, c.sample.data(), c.dropout});
    EXPECT_TRUE(test::same_bits(y, want));
}

// sum(y w) is linear in a table element: its difference quotient is the gradient up to rounding.
TEST(Embedding, FiniteDifferences) {
    const Case c(0.3);
    const auto w = test::random_values<double>(c.B * c.T * c.C, 6);
    auto table = test::random_values<double>(c.padded * c.C, 1);
    const auto positions = test::random_values<double>(c.T * c.C, 2);
    const auto objective = [&] {
        std::vector<double> y(w.size());
        ops::embedding_forward<double>({}, {y.data(), table.data(), positions.data(), c.tokens.data(),
                                            c.positions.data(), c.B, c.T, c.C, c.sample.data(), c.dropout});
        double sum = 0;
        for (std::size_t i = 0; i < y.size(); ++i) {
            sum += y[i] * w[i];
        }
        return sum;
    };
    std::vector<double> gradient(table.size());
    run_backward<double>(c, w, &gradient, nullptr);
    for (const i64 i : {i64{0}, i64{40}, 4 * c.C + 36, (c.vocabulary - 1) * c.C}) {
        const double before = table[i];
        table[i] = before + 0.5;
        const double above = objective();
        table[i] = before - 0.5;
        const double below = objective();
        table[i] = before;
        EXPECT_NEAR(above - below, gradient[i], 8e-14);  // sums of 800 terms below 3 reach 60: 7e-15 a rounding
    }
}

}  // namespace
}  // namespace ogrom
