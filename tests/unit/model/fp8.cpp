// Blocks with linear layers in fp8 (numerics.linears), on the CPU in float and double: every way of the passes gives
// one answer, near that of the layers as they are.
#include <cmath>
#include <gtest/gtest.h>

#include "tests/unit/model/tiny.h"

namespace ogrom::test {
namespace {

constexpr i64 T = 16;

ModelConfig model_of_16() {
    ModelConfig model = tiny_config();
    model.layers = 3;
    model.hidden = 32;
    model.heads = model.kv_heads = 2;
    model.head_dim = 16;
    model.ffn_hidden = 48;
    model.sequence = T;
    model.init_std = 0.1;  // larger ones carry roundings far through so narrow a softmax
    return model;
}

StageShape shape_of(const ModelConfig& model, LinearProducts linears, i64 slots = 1, i64 weight_slots = 0) {
    StageShape shape = whole_shape(model, {.micro_batch = 2,
                                           .sequence = T,
                                           .logits_rows = 7,
                                           .threads = 2,
                                           .slots = {slots},
                                           .gradient_buffers = slots,
                                           .weight_slots = weight_slots});
    shape.linears = linears;
    return shape;
}

std::vector<Batch> two_batches(const ModelConfig& model) {
    return {make_batch(model, 0, 2, T, 4), make_batch(model, 2, 2, T, 4)};
}

template <class Real>
struct Outcome {
    double loss = 0;
    std::vector<Real> gradient;
    bool operator==(const Outcome&) const = default;
};

template <class Real>
Outcome<Real> passes(TinyModel<Real>& tiny) {
    tiny.poison();
    const double loss = tiny.step(two_batches(tiny.model), 0.05, 3);
    return {loss, tiny.gradient_copy()};
}

// Both input halves before the first weight half.
template <class Real>
Outcome<Real> split_passes(TinyModel<Real>& tiny) {
    const std::vector<Batch> batches = two_batches(tiny.model);
    tiny.poison();
    tiny.clear();
    const auto info = tiny.info_of(0.05, 3);
    Outcome<Real> outcome;
    for (i64 m = 0; m < 2; ++m) {
        tiny.stage->forward({}, batches[static_cast<std::size_t>(m)], 0, m, info);
    }
    for (i64 m = 0; m < 2; ++m) {
        tiny.stage->backward_input({}, batches[static_cast<std::size_t>(m)], 0, m, 1 - m, m, info);
        outcome.loss += tiny.take_loss();
    }
    for (i64 m = 0; m < 2; ++m) {
        tiny.stage->backward_weight({}, batches[static_cast<std::size_t>(m)], 0, m, m, info);
    }
    outcome.gradient = tiny.gradient_copy();
    return outcome;
}

TEST(Fp8Linears, EveryWayOfThePassesGivesTheSameBits) {
    const ModelConfig model = model_of_16();
    TinyModel<float> plain(model, shape_of(model, LinearProducts::fp8));
    const Outcome<float> expected = passes(plain);
    ASSERT_TRUE(std::isfinite(expected.loss));
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        for (const i64 interval : {1, 2}) {
            StageShape whole = shape_of(model, LinearProducts::fp8),
                       halves = shape_of(model, LinearProducts::fp8, 2, 2);
            whole.recompute = halves.recompute = recompute;
            whole.recompute_interval = halves.recompute_interval = interval;
            TinyModel<float> one(model, whole), two(model, halves);
            EXPECT_EQ(passes(one), expected) << static_cast<int>(recompute) << " every " << interval;
            EXPECT_EQ(split_passes(two), expected) << static_cast<int>(recompute) << " every " << interval;
        }
    }
}

// Of each weight matrix of a block, ||difference|| / ||gradient||: roundings of 2^-4 and 2^-3 through three blocks.
TEST(Fp8Linears, StayNearTheLayersAsTheyAre) {
    const ModelConfig model = model_of_16();
    TinyModel<double> rounded(model, shape_of(model, LinearProducts::fp8));
    TinyModel<double> exact(model, shape_of(model, LinearProducts::compute));
    const Outcome<double> a = passes(rounded), b = passes(exact);
    EXPECT_NE(a.loss, b.loss);
    EXPECT_NEAR(a.loss / b.loss, 1, 0.01);
    for (const LocalTensor& tensor : exact.layout.tensors()) {
        double difference = 0, size = 0;
        for (i64 i = tensor.offset; i < tensor.offset + tensor.count; ++i) {
            const auto at = static_cast<std::size_t>(i);
            ASSERT_TRUE(std::isfinite(a.gradient[at])) << tensor.parameter->name;
            difference += (a.gradient[at] - b.gradient[at]) * (a.gradient[at] - b.gradient[at]);
            size += b.gradient[at] * b.gradient[at];
        }
        if (tensor.parameter->name.starts_with("block.") && tensor.parameter->name.ends_with(".weight")) {
            EXPECT_GT(difference, 0) << tensor.parameter->name;
            EXPECT_LT(std::sqrt(difference / size), 0.25) << tensor.parameter->name;
        }
    }
}

// 31 channels and 3 samples of 5: nothing fits, and nothing changes.
TEST(Fp8Linears, ExtentsThatDoNotFitAreMadeAsBefore) {
    ModelConfig model = model_of_16();
    model.hidden = 30;
    model.head_dim = 15;
    TinyModel<float> one(model, shape_of(model, LinearProducts::fp8)),
        two(model, shape_of(model, LinearProducts::compute));
    EXPECT_EQ(passes(one), passes(two));
    model = model_of_16();
    model.ffn_hidden = 40;  // the MLP alone
    TinyModel<float> some(model, shape_of(model, LinearProducts::fp8)),
        none(model, shape_of(model, LinearProducts::compute));
    EXPECT_NE(passes(some), passes(none));
}

TEST(Fp8Linears, ANanReachesTheGradients) {
    const ModelConfig model = model_of_16();
    TinyModel<float> tiny(model, shape_of(model, LinearProducts::fp8));
    const LocalTensor& up = tiny.layout.tensor("block.1.mlp.up.weight");
    tiny.weights[static_cast<std::size_t>(up.offset + 7)] = std::nanf("");
    tiny.step(two_batches(model), 0.05, 3);
    const std::vector<float> gradient = tiny.gradient_copy();
    const LocalTensor& before = tiny.layout.tensor("block.0.mlp.up.weight");
    for (i64 i = 0; i < before.count; ++i) {
        ASSERT_TRUE(std::isnan(gradient[static_cast<std::size_t>(before.offset + i)]));
    }
}

TEST(Fp8Linears, TheLedgerHasTheOperandsAndTheScales) {
    const ModelConfig model = model_of_16();
    const Ledger ledger = stage_ledger<float>(model, shape_of(model, LinearProducts::fp8, 2, 1));
    EXPECT_EQ(ledger.line("activations.fp8_scales").bytes, 2 * 3 * 4 * 8 * 4);
    // Backward of query, key and value: d_y twice, and the larger of x and w; each on lines of 256 bytes.
    EXPECT_EQ(ledger.line("workspace.fp8").bytes, 256 + 2 * 32 * 96 + 96 * 32);
    const Ledger without = stage_ledger<float>(model, shape_of(model, LinearProducts::compute));
    for (const LedgerLine& line : without.lines()) {
        EXPECT_EQ(line.name.find("fp8"), std::string::npos);
    }
}

}  // namespace
}  // namespace ogrom::test
