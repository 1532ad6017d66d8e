// Choice of the next token: greedy, cuts, frequencies, repeatability; the sliding window of a long text.
#include "src/model/sampling.h"

#include <gtest/gtest.h>
#include <map>

#include "kernels/common/error.h"

#include "tests/unit/model/tiny.h"

namespace ogrom::test {
namespace {

constexpr double never = -std::numeric_limits<double>::infinity();

std::map<std::int32_t, i64> frequencies(const std::vector<double>& logits, const SamplingOptions& options, i64 draws) {
    std::map<std::int32_t, i64> count;
    for (i64 i = 0; i < draws; ++i) {
        ++count[choose_token(logits, options, i)];
    }
    return count;
}

TEST(ChooseToken, GreedyTakesTheLargestAndTheLowestIdOfEquals) {
    const SamplingOptions greedy{.temperature = 0};
    EXPECT_EQ(choose_token(std::vector<double>{1, 3, 2, 3}, greedy, 0), 1);
    EXPECT_EQ(choose_token(std::vector<double>{never, -5, never}, greedy, 9), 1);
}

// Each frequency within five standard errors, sqrt(p (1 - p) / n).
TEST(ChooseToken, FrequenciesAreTheSoftmax) {
    const std::vector<double> logits = {std::log(1.0), std::log(2.0), never, std::log(5.0)};
    constexpr i64 n = 20000;
    const auto near = [](i64 count, double p) {
        EXPECT_NEAR(static_cast<double>(count) / n, p, 5 * std::sqrt(p * (1 - p) / n));
    };
    auto count = frequencies(logits, {.temperature = 1, .seed = 1}, n);
    near(count[0], 1.0 / 8);
    near(count[1], 2.0 / 8);
    near(count[3], 5.0 / 8);
    EXPECT_FALSE(count.contains(2));
    count = frequencies(logits, {.temperature = 0.5, .seed = 1}, n);  // squares: 1, 4, 25 of 30
    near(count[0], 1.0 / 30);
    near(count[1], 4.0 / 30);
    near(count[3], 25.0 / 30);
}

TEST(ChooseToken, TopKAndTopPCutTheTail) {
    const std::vector<double> logits = {std::log(1.0), std::log(2.0), std::log(3.0), std::log(4.0)};
    EXPECT_EQ(frequencies(logits, {.top_k = 2}, 2000).size(), 2U);
    EXPECT_EQ(frequencies(logits, {.top_k = 1}, 2000).size(), 1U);
    EXPECT_EQ(frequencies(logits, {.top_k = 99}, 2000).size(), 4U);
    EXPECT_EQ(frequencies(logits, {.top_p = 0.39}, 2000).size(), 1U);  // 0.4 reaches it
    EXPECT_EQ(frequencies(logits, {.top_p = 0.41}, 2000).size(), 2U);
    EXPECT_EQ(frequencies(logits, {.top_p = 1e-9}, 2000).size(), 1U);
    EXPECT_TRUE(frequencies(logits, {.top_p = 0.41}, 2000).contains(2));
}

TEST(ChooseToken, IsAFunctionOfSeedAndIndex) {
    const std::vector<double> logits(50, 0.0);
    const SamplingOptions options{.seed = 7};
    i64 same_seed = 0;
    i64 other_seed = 0;
    for (i64 i = 0; i < 100; ++i) {
        same_seed += choose_token(logits, options, i) == choose_token(logits, {.seed = 7}, i) ? 1 : 0;
        other_seed += choose_token(logits, options, i) == choose_token(logits, {.seed = 8}, i) ? 1 : 0;
    }
    EXPECT_EQ(same_seed, 100);
    EXPECT_LT(other_seed, 20);
}

TEST(ChooseToken, RefusesNonsense) {
    EXPECT_THROW(choose_token(std::vector<double>{1, std::nan("")}, {}, 0), Error);
    EXPECT_THROW(choose_token(std::vector<double>{never, never}, {}, 0), Error);
    EXPECT_THROW(check({.temperature = -0.1}), Error);
    EXPECT_THROW(check({.temperature = std::nan("")}), Error);
    EXPECT_THROW(check({.top_k = -1}), Error);
    EXPECT_THROW(check({.top_p = 0}), Error);
    EXPECT_THROW(check({.top_p = 1.5}), Error);
    EXPECT_NO_THROW(check({}));
}

std::vector<double> logits_after(TinyModel<double>& tiny, std::span<const std::int32_t> tokens) {
    Generator<double> generator(tiny.model, tiny.layout, tiny.weights, 2);
    const std::span<const double> logits = generator.feed(tokens);
    return {logits.begin(), logits.end()};
}

// A piece-wise fed cache and a fresh one agree to rounding: a few eps of logits of size one to ten.
void expect_near(std::span<const double> a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < b.size(); ++i) {
        EXPECT_NEAR(a[i], b[i], 1e-13);
    }
}

TEST(Continuation, SlidesWhenTheSequenceIsFull) {
    const ModelConfig model = tiny_config();  // sequence 11
    TinyModel<double> tiny(model, {.micro_batch = 1, .sequence = 11, .logits_rows = 11, .threads = 2});
    Generator<double> generator(model, tiny.layout, tiny.weights, 2);
    const std::vector<std::int32_t> text = make_batch(model, 0, 2, 11).tokens;
    const std::span<const std::int32_t> all(text);
    Continuation<double> continuation(generator, 11, {text.begin(), text.begin() + 9});
    expect_near(continuation.logits(), logits_after(tiny, all.first(9)));
    for (std::size_t n = 9; n < 11; ++n) {
        continuation.append(text[n]);
        expect_near(continuation.logits(), logits_after(tiny, all.first(n + 1)));
    }
    EXPECT_EQ(continuation.dropped(), 0);
    continuation.append(text[11]);  // 12 tokens: the last 5 stay
    expect_near(continuation.logits(), logits_after(tiny, all.subspan(7, 5)));
    EXPECT_EQ(continuation.dropped(), 7);
    continuation.append(text[12]);
    expect_near(continuation.logits(), logits_after(tiny, all.subspan(7, 6)));
}

TEST(Continuation, LongPromptKeepsItsTail) {
    const ModelConfig model = tiny_config();
    TinyModel<double> tiny(model, {.micro_batch = 1, .sequence = 11, .logits_rows = 11, .threads = 2});
    Generator<double> generator(model, tiny.layout, tiny.weights, 2);
    const std::vector<std::int32_t> text = make_batch(model, 0, 2, 11).tokens;
    Continuation<double> continuation(generator, 11, text);
    EXPECT_EQ(continuation.dropped(), 11);
    expect_near(continuation.logits(), logits_after(tiny, std::span<const std::int32_t>(text).subspan(11)));
}

}  // namespace
}  // namespace ogrom::test
