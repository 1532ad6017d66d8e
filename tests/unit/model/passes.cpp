// Ways to run the same passes: recomputation, split backward, chunks and stages. All give the same bits.
#include <gtest/gtest.h>

#include "tests/unit/model/tiny.h"

namespace ogrom::test {
namespace {

ModelConfig deep_config(bool dropout) {
    ModelConfig model = tiny_config();
    model.layers = 4;
    if (dropout) {
        model.dropout_embedding = 0.1;
        model.dropout_attention = 0.2;
        model.dropout_residual = 0.3;
    }
    return model;
}

StageExtents small_extents(i64 slots = 1, i64 buffers = 1, i64 weight_slots = 0) {
    return {.micro_batch = 2,
            .sequence = 11,
            .logits_rows = 7,
            .threads = 2,
            .slots = {slots},
            .gradient_buffers = buffers,
            .weight_slots = weight_slots};
}

std::vector<Batch> two_batches(const ModelConfig& model) {
    return {make_batch(model, 0, 2, 11, 4), make_batch(model, 2, 2, 11, 4)};
}

struct Result {
    double loss = 0;
    std::vector<float> gradient;
    bool operator==(const Result&) const = default;
};
Result plain(const ModelConfig& model) {
    TinyModel<float> tiny(model, small_extents());
    const double loss = tiny.step(two_batches(model), 0.05, 3);
    return {loss, tiny.gradient_copy()};
}

class Ways : public testing::TestWithParam<bool> {
protected:
    const ModelConfig model = deep_config(GetParam());
    const Result expected = plain(model);
};

struct Again {
    Recompute recompute;
    i64 interval;
};
const std::vector<Again> all_recomputations = {{Recompute::none, 1}, {Recompute::selective, 1}, {Recompute::full, 1},
                                               {Recompute::full, 2}, {Recompute::full, 3},      {Recompute::full, 9}};

TEST_P(Ways, RecomputationGivesTheSameBits) {
    for (const Again& again : all_recomputations) {
        StageShape shape = whole_shape(model, small_extents());
        shape.recompute = again.recompute;
        shape.recompute_interval = again.interval;
        TinyModel<float> tiny(model, shape);
        tiny.poison();
        const double loss = tiny.step(two_batches(model), 0.05, 3);
        EXPECT_EQ((Result{loss, tiny.gradient_copy()}), expected)
            << static_cast<int>(again.recompute) << " every " << again.interval;
    }
}

// Both input halves before the first weight half, each micro-batch in its own slots.
TEST_P(Ways, SplitBackwardGivesTheSameBits) {
    const std::vector<Batch> batches = two_batches(model);
    for (const Again& again : all_recomputations) {
        StageShape shape = whole_shape(model, small_extents(2, 2, 2));
        shape.recompute = again.recompute;
        shape.recompute_interval = again.interval;
        TinyModel<float> tiny(model, shape);
        tiny.poison();
        tiny.clear();
        const auto info = tiny.info_of(0.05, 3);
        Result result;
        for (i64 m = 0; m < 2; ++m) {
            tiny.stage->forward({}, batches[static_cast<std::size_t>(m)], 0, m, info);
        }
        for (i64 m = 0; m < 2; ++m) {
            tiny.stage->backward_input({}, batches[static_cast<std::size_t>(m)], 0, m, 1 - m, m, info);
            result.loss += tiny.take_loss();
        }
        for (i64 m = 0; m < 2; ++m) {
            tiny.stage->backward_weight({}, batches[static_cast<std::size_t>(m)], 0, m, m, info);
        }
        result.gradient = tiny.gradient_copy();
        EXPECT_EQ(result, expected) << static_cast<int>(again.recompute) << " every " << again.interval;
    }
}

void hand_over(const Stage<float>& stage, float* to, const float* from) {
    std::copy_n(from, stage.boundary_elements(), to);
}

TEST_P(Ways, ChunksOfOneStageGiveTheSameBits) {
    StageShape shape;
    shape.spans = {{0, 0, 0, 1, true, false}, {0, 1, 1, 1, false, false}, {0, 2, 1, 4, false, true}};
    shape.extents = small_extents(1, 1, 0);
    shape.extents.slots = {2, 1, 3};
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        shape.recompute = recompute;
        shape.recompute_interval = 2;
        TinyModel<float> tiny(model, shape);
        Stage<float>& stage = *tiny.stage;
        EXPECT_EQ(stage.boundary_elements(), 2 * 11 * 15);
        const auto info = tiny.info_of(0.05, 3);
        const std::vector<i64> slots = {1, 0, 2};
        Result result;
        for (const Batch& batch : two_batches(model)) {
            for (i64 chunk = 0; chunk < 3; ++chunk) {
                const i64 slot = slots[static_cast<std::size_t>(chunk)];
                if (chunk > 0) {
                    const i64 before = slots[static_cast<std::size_t>(chunk - 1)];
                    hand_over(stage, stage.activation_in(chunk, slot), stage.activation_out(chunk - 1, before));
                }
                stage.forward({}, batch, chunk, slot, info);
            }
            for (i64 chunk = 2; chunk >= 0; --chunk) {
                stage.backward({}, batch, chunk, slots[static_cast<std::size_t>(chunk)], 0, info);
            }
            result.loss += tiny.take_loss();
        }
        result.gradient = tiny.gradient_copy();
        EXPECT_EQ(result, expected);
    }
}

// Two stages with a tied table: each holds a copy, and the two gradients are the two parts of the whole stage's.
TEST_P(Ways, StagesGiveTheSameBits) {
    StageShape first_shape;
    first_shape.spans = {{0, 0, 0, 3, true, false}};
    first_shape.extents = small_extents();
    StageShape last_shape = first_shape;
    last_shape.spans = {{1, 0, 3, 4, false, true}};
    TinyModel<float> first(model, first_shape);
    TinyModel<float> last(model, last_shape);
    TinyModel<float> one(model, small_extents());
    const auto info = last.info_of(0.05, 3);
    double loss = 0;
    for (const Batch& batch : two_batches(model)) {
        first.stage->forward({}, batch, 0, 0, info);
        hand_over(*first.stage, last.stage->activation_in(0, 0), first.stage->activation_out(0, 0));
        last.stage->forward({}, batch, 0, 0, info);
        last.stage->backward({}, batch, 0, 0, 0, info);
        loss += last.take_loss();
        hand_over(*first.stage, first.stage->gradient(0), last.stage->gradient(0));
        first.stage->backward({}, batch, 0, 0, 0, info);
        EXPECT_EQ(last.take_loss(), 0);  // no head, no loss
        one.stage->forward({}, batch, 0, 0, info);
        one.stage->backward({}, batch, 0, 0, 0, one.info_of(0.05, 3));
    }
    EXPECT_EQ(loss, expected.loss);
    ASSERT_GT(one.layout.gradient_size(), one.layout.size());
    const auto same = [&](const TinyModel<float>& part, const LocalTensor& tensor, i64 place) {
        for (i64 i = 0; i < tensor.count; ++i) {
            ASSERT_EQ(part.gradient_space[static_cast<std::size_t>(tensor.offset + i)],
                      one.gradient_space[static_cast<std::size_t>(place + i)])
                << tensor.parameter->name;
        }
    };
    for (const TinyModel<float>* part : {&first, &last}) {
        for (const LocalTensor& tensor : part->layout.tensors()) {
            const bool tied = !tensor.parameter->tie.empty();
            same(*part, tensor, tied ? one.layout.size() : one.layout.tensor(tensor.parameter->name).offset);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Dropout, Ways, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& p) { return p.param ? "on" : "off"; });

TEST(Recomputation, EvaluationIsTheSame) {
    const ModelConfig model = deep_config(true);
    TinyModel<float> tiny(model, small_extents());
    const Batch batch = make_batch(model, 0, 2, 11, 4);
    StageShape shape = whole_shape(model, small_extents());
    shape.recompute = Recompute::full;
    TinyModel<float> again(model, shape);
    EXPECT_EQ(again.evaluate(batch), tiny.evaluate(batch));
}

// Copies: kept layers per slot, one scratch copy (or one per weight slot and layer) for the others.
TEST(Recomputation, MemoryFollowsTheCopies) {
    const ModelConfig model = deep_config(false);
    const i64 gelu = round_up(2 * 11 * 29 * 4, 64);
    const i64 up = gelu;
    const i64 attention = round_up(2 * 11 * 15 * 4, 64);
    const auto lines = [&](Recompute recompute, i64 interval, i64 slots, i64 weight_slots) {
        StageShape shape = whole_shape(model, small_extents(slots, 1, weight_slots));
        shape.recompute = recompute;
        shape.recompute_interval = interval;
        return stage_ledger<float>(model, shape);
    };
    const Ledger none = lines(Recompute::none, 1, 3, 0);
    EXPECT_EQ(none.line("activations.gelu").bytes, 3 * 4 * gelu);
    EXPECT_EQ(none.line("activations.gelu").formula, "S L B (T/cp) F * 4");
    const Ledger selective = lines(Recompute::selective, 1, 3, 2);
    EXPECT_EQ(selective.line("activations.gelu").bytes, gelu);
    EXPECT_EQ(selective.line("activations.norm1").bytes, (2 * 4 + 1) * attention);  // the weight half reads it
    EXPECT_EQ(lines(Recompute::selective, 1, 3, 0).line("activations.norm1").bytes, attention);
    EXPECT_EQ(selective.line("activations.up").bytes, 3 * 4 * up);
    EXPECT_EQ(selective.line("activations.attention").bytes, 3 * 4 * attention);
    EXPECT_EQ(selective.line("activations.kept_d_up").bytes, 2 * 4 * up);
    const Ledger full = lines(Recompute::full, 3, 3, 0);  // layers 0 and 3 are made again
    EXPECT_EQ(full.line("activations.gelu").bytes, (3 * 2 + 1) * gelu);
    EXPECT_EQ(full.line("activations.gelu").formula, "(S Lk + 1) B (T/cp) F * 4");
    EXPECT_EQ(full.line("activations.attention").bytes, (3 * 2 + 1) * attention);
    const Ledger split = lines(Recompute::full, 3, 3, 2);
    EXPECT_EQ(split.line("activations.gelu").bytes, (3 * 2 + 2 * 2 + 1) * gelu);
    EXPECT_EQ(split.line("activations.up").bytes, (3 * 2 + 1) * up);
    EXPECT_EQ(split.line("activations.attention").bytes, (3 * 2 + 2 * 2 + 1) * attention);
    for (const Ledger* ledger : {&none, &selective, &full, &split}) {
        EXPECT_EQ(ledger->line("activations.residual").bytes, 3 * 5 * attention);
    }
}

}  // namespace
}  // namespace ogrom::test
