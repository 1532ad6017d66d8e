// The key-value cache: logits of cached generation are those of the full forward pass.
#include <gtest/gtest.h>

#include "kernels/common/error.h"

#include "tests/unit/model/tiny.h"

namespace ogrom::test {
namespace {

// Loss of target v at the last of `tokens`, which is lse - z_v: differences give the logits up to a constant.
std::vector<double> losses_of_last(TinyModel<double>& tiny, std::span<const std::int32_t> tokens) {
    const i64 n = static_cast<i64>(tokens.size());
    Batch batch;
    batch.B = 1;
    batch.T = n;
    batch.tokens.assign(tokens.begin(), tokens.end());
    batch.targets.assign(tokens.size(), 0);
    batch.loss_mask.assign(tokens.size(), 0);
    batch.loss_mask.back() = 1;
    for (i64 t = 0; t < n; ++t) {
        batch.positions.push_back(static_cast<std::int32_t>(t));
    }
    batch.sample = batch.sample_id = {0};
    batch.unmasked = 1;
    std::vector<double> losses;
    for (std::int32_t v = 0; v < tiny.model.vocab; ++v) {
        batch.targets.back() = v;
        losses.push_back(tiny.evaluate(batch));
    }
    return losses;
}

// fp64 sums in another order: eps times the size of the logits, one to ten, a few times over.
void expect_same(std::span<const double> logits, const std::vector<double>& losses) {
    ASSERT_EQ(logits.size(), losses.size());
    double largest = logits[0];
    for (const double z : logits) {
        largest = std::max(largest, z);
    }
    double sum = 0;
    for (const double z : logits) {
        sum += std::exp(z - largest);
    }
    const double lse = largest + std::log(sum);
    for (std::size_t v = 0; v < losses.size(); ++v) {
        ASSERT_TRUE(std::isfinite(logits[v]));
        EXPECT_NEAR(lse - logits[v], losses[v], 1e-13) << v;
    }
}

std::vector<std::int32_t> tokens_of(const ModelConfig& model) {
    return make_batch(model, 0, 1, model.sequence).tokens;
}

TEST(Generator, CachedDecodeEqualsTheFullForward) {
    for (const i64 kv_heads : {3, 1}) {
        ModelConfig model = tiny_config();
        model.kv_heads = kv_heads;
        model.tied = kv_heads == 3;
        TinyModel<double> tiny(model, {.micro_batch = 1, .sequence = 11, .logits_rows = 11, .threads = 2});
        const std::vector<std::int32_t> tokens = tokens_of(model);
        const std::span<const std::int32_t> all(tokens);
        Generator<double> generator(model, tiny.layout, tiny.weights, 2);
        expect_same(generator.feed(all.first(4)), losses_of_last(tiny, all.first(4)));
        for (std::size_t n = 4; n < 8; ++n) {
            expect_same(generator.feed(all.subspan(n, 1)), losses_of_last(tiny, all.first(n + 1)));
        }
        expect_same(generator.feed(all.subspan(8, 3)), losses_of_last(tiny, all));
    }
}

TEST(Generator, LongPromptGoesThroughInPieces) {
    ModelConfig model = tiny_config();
    model.sequence = 600;  // more than two prefill pieces
    TinyModel<double> tiny(model, {.micro_batch = 1, .sequence = 600, .logits_rows = 64, .threads = 2});
    const std::vector<std::int32_t> tokens = tokens_of(model);
    Generator<double> generator(model, tiny.layout, tiny.weights, 2);
    expect_same(generator.feed(tokens), losses_of_last(tiny, tokens));
}

// fp32: 1e-5 absolute for logits of size one to ten (64 eps times the size).
TEST(Generator, Fp32AgreesWithFp64) {
    const ModelConfig model = tiny_config();
    TinyModel<double> exact(model, {.micro_batch = 1, .sequence = 11, .logits_rows = 11, .threads = 2});
    TinyModel<float> tiny(model, {.micro_batch = 1, .sequence = 11, .logits_rows = 11, .threads = 2});
    std::copy(exact.weights.begin(), exact.weights.end(), tiny.weights.begin());
    std::copy(tiny.weights.begin(), tiny.weights.end(), exact.weights.begin());
    const std::vector<std::int32_t> tokens = tokens_of(model);
    const std::span<const std::int32_t> all(tokens);
    Generator<float> generator(model, tiny.layout, tiny.weights, 2);
    Generator<double> reference(model, exact.layout, exact.weights, 2);
    generator.feed(all.first(5));
    reference.feed(all.first(5));
    const std::span<const float> logits = generator.feed(all.subspan(5));
    const std::span<const double> expected = reference.feed(all.subspan(5));
    for (std::size_t v = 0; v < expected.size(); ++v) {
        EXPECT_NEAR(logits[v], expected[v], 1e-5) << v;
    }
}

TEST(Generator, ResetStartsAnew) {
    const ModelConfig model = tiny_config();
    TinyModel<float> tiny(model, {.micro_batch = 1, .sequence = 11, .logits_rows = 11, .threads = 2});
    const std::vector<std::int32_t> tokens = tokens_of(model);
    Generator<float> generator(model, tiny.layout, tiny.weights, 2);
    const std::span<const float> first = generator.feed(tokens);
    const std::vector<float> kept(first.begin(), first.end());
    EXPECT_THROW(generator.feed({tokens.data(), 1}), Error);  // beyond model.sequence
    generator.reset();
    const std::span<const float> again = generator.feed(tokens);
    EXPECT_TRUE(std::equal(again.begin(), again.end(), kept.begin(), kept.end()));
    generator.reset();
    const std::int32_t padding = static_cast<std::int32_t>(model.vocab);
    EXPECT_THROW(generator.feed({&padding, 1}), Error);
}

}  // namespace
}  // namespace ogrom::test
