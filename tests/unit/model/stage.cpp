// What must hold of a stage whatever the numbers: cuts, masks, padding, chunks, hooks, memory, repeatability.
#include "src/model/stage.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "kernels/common/error.h"

#include "src/model/activations.h"

#include "tests/unit/model/tiny.h"

namespace ogrom::test {
namespace {

StageExtents extents_of(i64 micro_batch) {
    return {.micro_batch = micro_batch, .sequence = 11, .logits_rows = 7, .threads = 2};
}

ModelConfig with_dropout(ModelConfig model) {
    model.dropout_embedding = 0.1;
    model.dropout_attention = 0.2;
    model.dropout_residual = 0.3;
    return model;
}

// A sum of 44 rows in another order differs by about sqrt(44) eps / 2 = 7e-16 of its norm (observed: below 1e-15).
constexpr double reorder = 5e-15;

class Cuts : public testing::TestWithParam<bool> {};

TEST_P(Cuts, MicroBatchesGiveTheGradientOfTheWholeBatch) {
    const ModelConfig model = GetParam() ? with_dropout(tiny_config()) : tiny_config();
    TinyModel<double> tiny(model, extents_of(4));
    const std::vector<Batch> whole_batch = {make_batch(model, 0, 4, 11, 3)};
    const double scale = 1.0 / static_cast<double>(unmasked(whole_batch));
    const double loss = tiny.step(whole_batch, scale, 7);
    const std::vector<double> gradient = tiny.gradient_copy();
    const auto cut = [&](const std::vector<Batch>& batches) {
        ASSERT_EQ(unmasked(batches), unmasked(whole_batch));
        EXPECT_NEAR(tiny.step(batches, scale, 7), loss, reorder * loss);
        EXPECT_LE(relative_difference<double>(tiny.gradients, gradient), reorder);
    };
    cut({make_batch(model, 0, 2, 11, 3), make_batch(model, 2, 2, 11, 3)});
    cut({make_batch(model, 0, 1, 11, 3), make_batch(model, 1, 3, 11, 3)});
    cut({make_batch(model, 3, 1, 11, 3), make_batch(model, 2, 1, 11, 3), make_batch(model, 1, 1, 11, 3),
         make_batch(model, 0, 1, 11, 3)});
}
INSTANTIATE_TEST_SUITE_P(Dropout, Cuts, testing::Values(false, true),
                         [](const testing::TestParamInfo<bool>& p) { return p.param ? "on" : "off"; });

void mask_from(Batch& batch, i64 row, i64 kept) {
    for (i64 t = kept; t < batch.T; ++t) {
        std::uint8_t& mask = batch.loss_mask[static_cast<std::size_t>(row * batch.T + t)];
        batch.unmasked -= mask;
        mask = 0;
    }
}

// Field case B05: 1 and 11 unmasked targets, in one micro-batch or in two, give the same gradient.
TEST(Masks, WeighTargetsAlikeUnderEveryCut) {
    const ModelConfig model = tiny_config();
    TinyModel<double> tiny(model, extents_of(2));
    std::vector<Batch> one = {make_batch(model, 0, 2, 11)};
    mask_from(one[0], 0, 1);
    std::vector<Batch> two = {make_batch(model, 0, 1, 11), make_batch(model, 1, 1, 11)};
    mask_from(two[0], 0, 1);
    ASSERT_EQ(unmasked(one), 12);
    ASSERT_EQ(unmasked(two), 12);
    const double loss = tiny.step(one, 1.0 / 12);
    const std::vector<double> gradient = tiny.gradient_copy();
    EXPECT_NEAR(tiny.step(two, 1.0 / 12), loss, reorder * loss);
    EXPECT_LE(relative_difference<double>(tiny.gradients, gradient), reorder);
}

TEST(Masks, AnAllMaskedMicroBatchAddsZero) {
    const ModelConfig model = tiny_config();
    TinyModel<double> tiny(model, extents_of(2));
    std::vector<Batch> batches = {make_batch(model, 0, 2, 11, 4)};
    const double loss = tiny.step(batches, 0.05);
    const std::vector<double> gradient = tiny.gradient_copy();
    batches.push_back(make_batch(model, 2, 2, 11));
    mask_from(batches[1], 0, 0);
    mask_from(batches[1], 1, 0);
    ASSERT_EQ(batches[1].unmasked, 0);
    EXPECT_EQ(tiny.step(batches, 0.05), loss);
    EXPECT_EQ(tiny.gradient_copy(), gradient);
}

// Field case B07: equal logits over 5 true of 8 stored words give ln 5, and padding rows get no gradient.
TEST(PaddedVocabulary, TakesNoProbabilityAndNoGradient) {
    for (const bool tied : {true, false}) {
        ModelConfig model = tiny_config();
        model.vocab = 5;
        model.padded_vocab = 8;
        model.tied = tied;
        TinyModel<double> tiny(model, extents_of(2));
        const char* table = tied ? "embedding.token.weight" : "head.weight";
        const LocalTensor& tensor = tiny.layout.tensor(table);
        const std::span<double> weights =
            tiny.weights.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.count));
        std::fill(weights.begin(), weights.end(), 0.0);
        Batch batch = make_batch(model, 0, 2, 11);
        batch.targets[3] = 4;  // the last true word works as a target
        const double loss = tiny.step({batch}, 1.0 / 22);
        EXPECT_NEAR(loss / 22, std::log(5.0), 1e-14);
        // Stored padding that is not zero changes nothing either.
        std::fill(weights.begin() + 5 * 15, weights.end(), 3.0);
        EXPECT_EQ(tiny.step({batch}, 1.0 / 22), loss);
        EXPECT_GT(norm_of<double>(tiny.gradients.subspan(static_cast<std::size_t>(tensor.offset), 5 * 15)), 0);
        for (i64 i = 5 * 15; i < 8 * 15; ++i) {
            EXPECT_EQ(tiny.gradients[static_cast<std::size_t>(tensor.offset + i)], 0.0);
        }
    }
}

TEST(Head, ChunksOfAnySizeGiveTheWhole) {
    const ModelConfig model = tiny_config();
    const std::vector<Batch> batches = {make_batch(model, 0, 2, 11, 4)};
    StageExtents extents = extents_of(2);
    extents.logits_rows = 22;
    TinyModel<double> whole_logits(model, extents);
    const double loss = whole_logits.step(batches, 0.05);
    for (const i64 rows : {1, 5, 21}) {
        extents.logits_rows = rows;
        TinyModel<double> chunked(model, extents);
        EXPECT_NEAR(chunked.step(batches, 0.05), loss, reorder * loss);
        EXPECT_LE(relative_difference<double>(chunked.gradients, whole_logits.gradients), reorder);
    }
}

TEST(Evaluate, IsTheTrainingLossWithoutDropoutAndTouchesNoGradient) {
    const ModelConfig model = tiny_config();
    TinyModel<double> tiny(model, extents_of(2));
    TinyModel<double> dropping(with_dropout(model), extents_of(2));
    const Batch batch = make_batch(model, 0, 2, 11, 4);
    const double loss = tiny.step({batch}, 0.05);
    EXPECT_NEAR(dropping.evaluate(batch), loss, reorder * loss);
    EXPECT_EQ(norm_of<double>(dropping.gradients), 0);
    EXPECT_GT(std::abs(dropping.step({batch}, 0.05) - loss), 1e-3);  // dropout is on in training
}

TEST(Dropout, MasksDependOnTheStepAndOnNothingElse) {
    const ModelConfig model = with_dropout(tiny_config());
    TinyModel<double> tiny(model, extents_of(2));
    const Batch batch = make_batch(model, 0, 2, 11);
    const double first = tiny.step({batch}, 0.05, 1);
    const double second = tiny.step({batch}, 0.05, 2);
    EXPECT_NE(first, second);
    EXPECT_EQ(tiny.step({batch}, 0.05, 1), first);
}

class Threads : public testing::Test {
protected:
    ~Threads() override { omp_set_num_threads(before_); }

private:
    int before_ = omp_get_max_threads();
};

TEST_F(Threads, ResultsRepeatBitForBit) {
    const ModelConfig model = with_dropout(tiny_config());
    const std::vector<Batch> batches = {make_batch(model, 0, 2, 11, 4), make_batch(model, 2, 2, 11, 4)};
    TinyModel<float> tiny(model, extents_of(2));
    const double loss = tiny.step(batches, 0.05);
    const std::vector<float> gradient = tiny.gradient_copy();
    EXPECT_EQ(tiny.step(batches, 0.05), loss);
    EXPECT_EQ(tiny.gradient_copy(), gradient);
    omp_set_num_threads(1);
    EXPECT_EQ(tiny.step(batches, 0.05), loss);
    EXPECT_EQ(tiny.gradient_copy(), gradient);
}

// What a unit's release leaves is final, and the uses are those that unit_uses announces (ZeRO 3 gathers ahead by it).
TEST(Units, GradientsAreFinalAtReleaseAndUsesAreAsAnnounced) {
    for (const bool tied : {true, false}) {
        ModelConfig model = with_dropout(tiny_config());
        model.tied = tied;
        TinyModel<double> tiny(model, extents_of(2));
        std::vector<double> when_released(tiny.gradient_space.size(), std::nan(""));
        std::vector<int> times(tiny.gradient_space.size(), 0);
        tiny.source.released = [&](i64 unit, Use use) {
            for (const FlatRange& range : tiny.layout.units()[static_cast<std::size_t>(unit)].gradients) {
                for (i64 i = range.first; writes_gradients(use) && i < range.last; ++i) {
                    when_released[static_cast<std::size_t>(i)] = tiny.gradient_space[static_cast<std::size_t>(i)];
                    ++times[static_cast<std::size_t>(i)];
                }
            }
        };
        const Batch batch = make_batch(model, 0, 2, 11, 4);
        tiny.stage->forward({}, batch, 0, 0, tiny.info_of(0.05));
        tiny.stage->backward({}, batch, 0, 0, 0, tiny.info_of(0.05));
        EXPECT_EQ(when_released, std::vector<double>(tiny.gradient_space.begin(), tiny.gradient_space.end()));
        EXPECT_EQ(times, std::vector<int>(tiny.gradient_space.size(), 1));
        std::vector<UnitUse> announced = unit_uses(tiny.layout, 0, PassKind::forward);
        for (const UnitUse& use : unit_uses(tiny.layout, 0, PassKind::backward)) {
            announced.push_back(use);
        }
        ASSERT_EQ(tiny.source.used.size(), announced.size());
        for (std::size_t i = 0; i < announced.size(); ++i) {
            EXPECT_EQ(tiny.source.used[i].unit, announced[i].unit);
            EXPECT_EQ(tiny.source.used[i].use, announced[i].use);
        }
        EXPECT_GE(tiny.source.progress_calls, 2 * 10);  // of each block: between its products, both ways
    }
}

// A smaller micro-batch after a full one must not see what the full one left: nor may the first see anything.
TEST(Memory, NothingIsReadBeforeItIsWritten) {
    for (const bool dropout : {false, true}) {
        const ModelConfig model = dropout ? with_dropout(tiny_config()) : tiny_config();
        TinyModel<double> tiny(model, extents_of(3));
        const std::vector<Batch> batches = {make_batch(model, 0, 2, 9, 4)};
        const double loss = tiny.step(batches, 0.05);
        const std::vector<double> gradient = tiny.gradient_copy();
        tiny.poison();
        ASSERT_TRUE(std::isnan(tiny.gradient_copy()[0]));
        EXPECT_EQ(tiny.step(batches, 0.05), loss);
        EXPECT_EQ(tiny.gradient_copy(), gradient);
        tiny.poison();
        EXPECT_TRUE(std::isfinite(tiny.evaluate(batches[0])));
    }
}

TEST(Slots, TwoMicroBatchesUnderWayDoNotMeet) {
    const ModelConfig model = with_dropout(tiny_config());
    StageExtents extents = extents_of(2);
    extents.slots = {2};
    TinyModel<double> tiny(model, extents);
    const Batch first = make_batch(model, 0, 2, 11, 4);
    const Batch second = make_batch(model, 2, 1, 9, 4);
    const double loss = tiny.step({first, second}, 0.05);
    const std::vector<double> gradient = tiny.gradient_copy();
    std::fill(tiny.gradients.begin(), tiny.gradients.end(), 0.0);
    const Stage<double>::StepInfo info = tiny.info_of(0.05);
    tiny.stage->forward({}, first, 0, 0, info);
    tiny.stage->forward({}, second, 0, 1, info);
    tiny.stage->backward({}, first, 0, 0, 0, info);
    double interleaved = tiny.take_loss();
    tiny.stage->backward({}, second, 0, 1, 0, info);
    interleaved += tiny.take_loss();
    EXPECT_EQ(interleaved, loss);
    EXPECT_EQ(tiny.gradient_copy(), gradient);
}

TEST(Activations, LedgerIsTheTable) {
    const ModelConfig model = with_dropout(tiny_config());
    const StageExtents extents{.micro_batch = 3, .sequence = 11, .logits_rows = 7, .threads = 2, .slots = {2}};
    const StageShape shape = whole_shape(model, extents);
    const std::vector<Activation> table = make_activations(model, shape, Dtype::fp32);
    const Ledger ledger = stage_ledger<float>(model, shape);
    i64 bytes = 0;
    for (const Activation& row : table) {
        EXPECT_EQ(ledger.line(row.name).bytes, row.bytes());
        bytes += row.bytes();
    }
    EXPECT_EQ(ledger.total(Tier::device), bytes);
    // 2 slots, 2 layers, 3 x 11 rows of 45 columns of 4 bytes, each copy rounded up to 64 bytes: 5940 -> 5952.
    EXPECT_EQ(ledger.line("activations.qkv").bytes, 2 * 2 * 5952);
    EXPECT_EQ(ledger.line("activations.qkv").formula, "S L B (T/cp) ((H+2K) D) * 4");
    EXPECT_EQ(ledger.line("workspace.logits").bytes, round_up(7 * 40 * 4, 64));
    EXPECT_THROW((void)stage_ledger<float>(tiny_config(), shape).line("workspace.d_branch"), Error);
}

// Field case B11 by index arithmetic: extents beyond 2^31 elements stay exact.
TEST(Activations, ExtentsBeyond32Bits) {
    ModelConfig model = tiny_config();
    model.vocab = model.padded_vocab = 50257;
    model.ffn_hidden = 65536;
    const StageExtents extents{.micro_batch = 43, .sequence = 1024, .logits_rows = 44032, .threads = 2};
    const Ledger ledger = stage_ledger<float>(model, whole_shape(model, extents));
    EXPECT_EQ(ledger.line("workspace.logits").bytes, i64{44032} * 50257 * 4);  // 2,212,916,224 elements
    EXPECT_EQ(ledger.line("workspace.d_wide").bytes, i64{43} * 1024 * 65536 * 4);
}

TEST(Stage, RefusesWhatDoesNotFit) {
    const ModelConfig model = tiny_config();
    TinyModel<float> tiny(model, extents_of(2));
    EXPECT_THROW(tiny.evaluate(make_batch(model, 0, 3, 11)), Error);
    Batch batch = make_batch(model, 0, 2, 11);
    batch.targets.pop_back();
    EXPECT_THROW(tiny.evaluate(batch), Error);
}

}  // namespace
}  // namespace ogrom::test
