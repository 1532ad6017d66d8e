// The parameter table: names, order, counts of known models, what decays, and layouts of parts of the model.
#include "src/model/parameters.h"

#include <gtest/gtest.h>

#include "kernels/common/error.h"

#include "tests/unit/model/tiny.h"

namespace ogrom::test {
namespace {

ModelConfig gpt(i64 layers, i64 hidden, i64 heads, i64 sequence) {
    ModelConfig model;
    model.layers = layers;
    model.hidden = hidden;
    model.heads = model.kv_heads = heads;
    model.head_dim = hidden / heads;
    model.ffn_hidden = 4 * hidden;
    model.vocab = 50257;
    model.padded_vocab = 50304;
    model.sequence = sequence;
    return model;
}

i64 count_of(const ModelConfig& model) {
    return make_parameters(model, Dtype::fp32).count();
}

// Figures of Hugging Face's gpt2, gpt2-medium, gpt2-large, gpt2-xl; the rest is V C + T C + L (12 C^2 + 13 C) + 2 C.
TEST(ParameterTable, CountsOfKnownModels) {
    EXPECT_EQ(count_of(gpt(12, 768, 12, 1024)), 124'439'808);
    EXPECT_EQ(count_of(gpt(24, 1024, 16, 1024)), 354'823'168);
    EXPECT_EQ(count_of(gpt(36, 1280, 20, 1024)), 774'030'080);
    EXPECT_EQ(count_of(gpt(48, 1600, 25, 1024)), 1'557'611'200);
    EXPECT_EQ(count_of(gpt(24, 2048, 16, 2048)), 1'315'723'264);     // GPT-3 1.3B
    EXPECT_EQ(count_of(gpt(96, 12288, 96, 2048)), 174'604'259'328);  // GPT-3 175B: beyond 32 bits
}

TEST(ParameterTable, UntiedHeadAndMissingBiasesCount) {
    ModelConfig model = gpt(12, 768, 12, 1024);
    model.tied = false;
    EXPECT_EQ(count_of(model), 124'439'808 + i64{50257} * 768);
    model.tied = true;
    model.bias = false;  // 10 C of a block's 13 C are biases, 1 C of the final norm
    EXPECT_EQ(count_of(model), 124'439'808 - 12 * 11 * 768 - 768);
}

TEST(ParameterTable, NamesShapesAndOrderOfABlock) {
    const ModelConfig model = tiny_config();
    const ParameterTable table = make_parameters(model, Dtype::fp64);
    const std::vector<std::pair<std::string, std::vector<i64>>> expected = {
        {"embedding.token.weight", {37, 15}},
        {"embedding.position.weight", {11, 15}},
        {"block.0.norm1.weight", {15}},
        {"block.0.norm1.bias", {15}},
        {"block.0.attention.query.weight", {15, 15}},
        {"block.0.attention.key.weight", {15, 15}},
        {"block.0.attention.value.weight", {15, 15}},
        {"block.0.attention.query.bias", {15}},
        {"block.0.attention.key.bias", {15}},
        {"block.0.attention.value.bias", {15}},
        {"block.0.attention.out.weight", {15, 15}},
        {"block.0.attention.out.bias", {15}},
        {"block.0.norm2.weight", {15}},
        {"block.0.norm2.bias", {15}},
        {"block.0.mlp.up.weight", {29, 15}},
        {"block.0.mlp.up.bias", {29}},
        {"block.0.mlp.down.weight", {15, 29}},
        {"block.0.mlp.down.bias", {15}},
    };
    ASSERT_EQ(table.rows().size(), 2 + 2 * 16 + 2 + 1);  // a tied head has a row as well
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(table.rows()[i].name, expected[i].first);
        EXPECT_EQ(table.rows()[i].shape, expected[i].second);
        EXPECT_EQ(table.rows()[i].id, static_cast<i64>(i));
        EXPECT_EQ(table.rows()[i].storage, Dtype::fp64);
    }
    EXPECT_EQ(table.row("embedding.token.weight").padded_shape, (std::vector<i64>{40, 15}));
    EXPECT_EQ(table.rows().back().name, "head.weight");
    EXPECT_EQ(table.row("head.weight").tie, "embedding.token.weight");
    EXPECT_EQ(table.row("head.weight").key, 0);
    EXPECT_THROW((void)table.row("head.bias"), Error);
}

TEST(ParameterTable, OnlyMatricesAndTablesDecay) {
    ModelConfig model = tiny_config();
    model.tied = false;
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    for (const Parameter& row : table.rows()) {
        EXPECT_EQ(row.decay_factor, row.shape.size() == 2 ? 1.0 : 0.0) << row.name;
        EXPECT_EQ(row.lr_factor, 1.0) << row.name;
    }
    EXPECT_DOUBLE_EQ(table.row("block.1.mlp.down.weight").initial_std, 0.3 / 2);  // sqrt(2 L) = 2
    EXPECT_DOUBLE_EQ(table.row("block.1.attention.out.weight").initial_std, 0.3 / 2);
    EXPECT_DOUBLE_EQ(table.row("block.1.attention.query.weight").initial_std, 0.3);
    EXPECT_DOUBLE_EQ(table.row("head.weight").initial_std, 0.3);
}

TEST(ParameterTable, RefusesByName) {
    ModelConfig model = tiny_config();
    model.norm = NormKind::rms;
    EXPECT_THROW(make_parameters(model, Dtype::fp32), Error);
    model = tiny_config();
    model.position = PositionKind::rope;
    EXPECT_THROW(make_parameters(model, Dtype::fp32), Error);
    model = tiny_config();
    model.mlp = MlpKind::swiglu;
    EXPECT_THROW(make_parameters(model, Dtype::fp32), Error);
    model = tiny_config();
    model.kv_heads = 2;
    EXPECT_THROW(make_parameters(model, Dtype::fp32), Error);
    model = tiny_config();
    model.padded_vocab = 36;
    EXPECT_THROW(make_parameters(model, Dtype::fp32), Error);
}

TEST(ParameterLayout, IsGaplessInForwardOrder) {
    ModelConfig model = tiny_config();
    model.tied = false;
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    const ParameterLayout layout(table, whole(model));
    i64 next = 0;
    for (const LocalTensor& tensor : layout.tensors()) {
        EXPECT_EQ(tensor.offset, next);
        next += tensor.count;
    }
    EXPECT_EQ(layout.size(), next);
    EXPECT_EQ(layout.size(), table.count() + 2 * 3 * 15);  // three padding rows in each of two tables
    EXPECT_EQ(layout.tensors().back().parameter->name, "head.weight");
    EXPECT_THROW((void)layout.tensor("block.2.norm1.weight"), Error);
}

TEST(ParameterLayout, StagesHoldEveryTensorOnce) {
    ModelConfig model = tiny_config();
    model.layers = 5;
    model.tied = false;
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    const StageSpan first{.stage = 0, .first_layer = 0, .last_layer = 2, .embeds = true, .heads = false};
    const StageSpan last{.stage = 1, .first_layer = 2, .last_layer = 5, .embeds = false, .heads = true};
    std::vector<i64> ids;
    i64 size = 0;
    for (const StageSpan& span : {first, last}) {
        const ParameterLayout layout(table, span);
        size += layout.size();
        for (const LocalTensor& tensor : layout.tensors()) {
            ids.push_back(tensor.parameter->id);
        }
    }
    ASSERT_EQ(ids.size(), table.rows().size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(ids[i], static_cast<i64>(i));
    }
    EXPECT_EQ(size, ParameterLayout(table, whole(model)).size());
}

}  // namespace
}  // namespace ogrom::test
