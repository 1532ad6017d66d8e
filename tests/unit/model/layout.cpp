// Cuts of the model over tensor ranks, stages and chunks: every logical element once, units cover the flat space once,
// initial values and the weight hash are those of the whole model.
#include <cmath>
#include <gtest/gtest.h>
#include <map>

#include "kernels/common/error.h"

#include "tests/unit/model/tiny.h"

namespace ogrom::test {
namespace {

// A model that 1, 2 and 4 tensor ranks divide; the last rank of 4 holds mostly padding.
ModelConfig even_config(bool tied) {
    ModelConfig model;
    model.layers = 3;
    model.hidden = 12;
    model.heads = model.kv_heads = 4;
    model.head_dim = 5;
    model.ffn_hidden = 20;
    model.vocab = 31;
    model.padded_vocab = 40;
    model.sequence = 8;
    model.tied = tied;
    return model;
}

using Spans = std::vector<StageSpan>;
// The stages of a cut: whole; two stages; two stages of two chunks each (of which the last one holds no block).
std::vector<std::vector<Spans>> cuts_of() {
    return {{{{0, 0, 0, 3, true, true}}},
            {{{0, 0, 0, 2, true, false}}, {{1, 0, 2, 3, false, true}}},
            {{{0, 0, 0, 1, true, false}, {0, 1, 2, 3, false, false}},
             {{1, 0, 1, 2, false, false}, {1, 1, 3, 3, false, true}}}};
}

class Parts : public testing::TestWithParam<std::tuple<int, bool>> {
protected:
    const int tp = std::get<0>(GetParam());
    const ModelConfig model = even_config(std::get<1>(GetParam()));
    const ParameterTable table = make_parameters(model, Dtype::fp64);
};

TEST_P(Parts, EveryLogicalElementIsHeldOnceOrIsReplicated) {
    for (const std::vector<Spans>& stages : cuts_of()) {
        std::map<std::string, std::vector<int>> held;
        for (const Spans& spans : stages) {
            for (int rank = 0; rank < tp; ++rank) {
                const ParameterLayout layout(table, spans, {tp, rank});
                for (const LocalTensor& tensor : layout.tensors()) {
                    std::vector<int>& times = held[tensor.parameter->name];
                    times.resize(static_cast<std::size_t>(tensor.parameter->count()));
                    for (i64 i = 0; i < tensor.logical; ++i) {
                        const i64 index = tensor.global_index(i);
                        ASSERT_TRUE(index >= 0 && index < tensor.parameter->count()) << tensor.parameter->name;
                        ++times[static_cast<std::size_t>(index)];
                    }
                    EXPECT_EQ(layout.replicated(tensor), tp > 1 && tensor.parameter->tensor_axis < 0);
                }
            }
        }
        for (const Parameter& row : table.rows()) {
            if (row.tie.empty() || held.count(row.name) > 0) {
                const int expected = row.tensor_axis < 0 ? tp : 1;
                EXPECT_EQ(held[row.name], std::vector<int>(static_cast<std::size_t>(row.count()), expected))
                    << row.name;
            }
        }
        // The copy of a tied table is held where the head stands without the embedding.
        EXPECT_EQ(held.count("head.weight"), model.tied && stages.size() == 1 ? 0U : 1U);
    }
}

TEST_P(Parts, UnitsCoverTheFlatSpaceOnce) {
    for (const std::vector<Spans>& stages : cuts_of()) {
        for (const Spans& spans : stages) {
            const ParameterLayout layout(table, spans, {tp, tp - 1});
            std::vector<int> weights(static_cast<std::size_t>(layout.size()));
            std::vector<int> gradients(static_cast<std::size_t>(layout.gradient_size()));
            i64 chunk = 0;
            for (const Unit& unit : layout.units()) {
                EXPECT_GE(unit.chunk, chunk);
                chunk = unit.chunk;
                ASSERT_EQ(unit.weights.size(), unit.gradients.size());
                i64 count = 0;
                for (std::size_t r = 0; r < unit.weights.size(); ++r) {
                    EXPECT_EQ(unit.weights[r].count(), unit.gradients[r].count());
                    count += unit.weights[r].count();
                    for (i64 i = unit.weights[r].first; i < unit.weights[r].last; ++i) {
                        ++weights[static_cast<std::size_t>(i)];
                    }
                    for (i64 i = unit.gradients[r].first; i < unit.gradients[r].last; ++i) {
                        ++gradients[static_cast<std::size_t>(i)];
                    }
                }
                EXPECT_EQ(unit.count(), count);
            }
            EXPECT_EQ(gradients, std::vector<int>(gradients.size(), 1));
            // A tied head in place reads the embedding's table as well.
            const FlatRange tied = layout.gradient_size() > layout.size() ? layout.tied_table() : FlatRange{};
            for (i64 i = 0; i < layout.size(); ++i) {
                EXPECT_EQ(weights[static_cast<std::size_t>(i)], i >= tied.first && i < tied.last ? 2 : 1) << i;
            }
        }
    }
}

TEST_P(Parts, ValuesAndHashAreThoseOfTheWholeModel) {
    const Spans all = {{0, 0, 0, 3, true, true}};
    const ParameterLayout whole_layout(table, all);
    std::vector<double> whole_values(static_cast<std::size_t>(whole_layout.size()));
    initialise<double>(whole_values, whole_layout, 7);
    const u64 hash = weight_hash<double>(whole_values, whole_layout);
    for (const std::vector<Spans>& stages : cuts_of()) {
        u64 sum = 0;
        for (const Spans& spans : stages) {
            for (int rank = 0; rank < tp; ++rank) {
                const ParameterLayout layout(table, spans, {tp, rank});
                std::vector<double> values(static_cast<std::size_t>(layout.size()), std::nan(""));
                initialise<double>(values, layout, 7);
                for (const LocalTensor& tensor : layout.tensors()) {
                    const std::string& tie = tensor.parameter->tie;
                    const LocalTensor& source = whole_layout.tensor(tie.empty() ? tensor.parameter->name : tie);
                    for (i64 i = 0; i < tensor.count; ++i) {
                        const double value = values[static_cast<std::size_t>(tensor.offset + i)];
                        const i64 place = i < tensor.logical ? source.offset + tensor.global_index(i) : -1;
                        ASSERT_EQ(value, place < 0 ? 0.0 : whole_values[static_cast<std::size_t>(place)]);
                    }
                }
                sum += weight_hash<double>(values, layout);
            }
        }
        EXPECT_EQ(sum, hash);
    }
}

// A shard is any flat range: cuts that split rows, lanes of the generator and tensors give the same values and hash.
TEST_P(Parts, AnyCutOfTheFlatBufferGivesTheSame) {
    const ParameterLayout layout(table, cuts_of()[0][0], {tp, tp - 1});
    std::vector<double> values(static_cast<std::size_t>(layout.size()));
    initialise<double>(values, layout, 7);
    const u64 hash = weight_hash<double>(values, layout);
    for (const i64 step : {i64{1}, i64{7}, i64{101}, layout.size()}) {
        std::vector<double> cut(values.size(), std::nan(""));
        u64 sum = 0;
        for (i64 first = 0; first < layout.size(); first += step) {
            const FlatRange range{first, std::min(first + step, layout.size())};
            initialise<double>(cut.data() + first, range, layout, 7);
            sum += weight_hash<double>(cut.data() + first, range, layout);
        }
        EXPECT_EQ(cut, values) << step;
        EXPECT_EQ(sum, hash) << step;
    }
}

INSTANTIATE_TEST_SUITE_P(Tensor, Parts, testing::Combine(testing::Values(1, 2, 4), testing::Bool()),
                         [](const testing::TestParamInfo<std::tuple<int, bool>>& p) {
                             return std::to_string(std::get<0>(p.param)) + (std::get<1>(p.param) ? "_tied" : "_untied");
                         });

TEST(Parts, RefusesWhatTensorRanksDoNotDivide) {
    ModelConfig model = even_config(true);
    model.ffn_hidden = 21;
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    const Spans all = {{0, 0, 0, 3, true, true}};
    EXPECT_THROW(ParameterLayout(table, all, {2, 0}), Error);
    model = even_config(true);
    StageShape shape = whole_shape(model, {.micro_batch = 1, .sequence = 8, .logits_rows = 4});
    shape.tensor = {8, 0};
    EXPECT_THROW((void)stage_ledger<float>(model, shape), Error);  // four heads over eight ranks
    shape.tensor = {4, 0};
    shape.sequence = Sequence::split;
    shape.extents.sequence = 6;
    EXPECT_THROW((void)stage_ledger<float>(model, shape), Error);  // six positions over four ranks
}

}  // namespace
}  // namespace ogrom::test
