// The stage over tensor ranks against the stage of one rank (fp64), with the sequence whole and split: losses,
// gradients of every tensor, recomputation and split backward, dropout masks, padded vocabularies, and the bytes sent.
#include <cmath>
#include <omp.h>

#include "src/model/layers.h"
#include "src/model/tensor_traffic.h"

#include "tests/mpi/world.h"
#include "tests/unit/model/tiny.h"

namespace ogrom::test {
namespace {

struct Way {
    const char* name;
    Sequence sequence = Sequence::whole;
    bool tied = true;
    bool dropout = false;
    bool bias = true;
    i64 vocab = 37, padded = 40;
    ReduceOrder order = ReduceOrder::any;
    Recompute recompute = Recompute::none;
    i64 interval = 1;
};
void PrintTo(const Way& way, std::ostream* out) {
    *out << way.name;
}

ModelConfig model_of(const Way& way) {
    ModelConfig model;
    model.layers = 3;
    model.hidden = 20;
    model.heads = 8;
    model.kv_heads = 4;
    model.head_dim = 3;
    model.ffn_hidden = 28;
    model.vocab = way.vocab;
    model.padded_vocab = way.padded;
    model.sequence = 12;
    model.init_std = 0.3;
    model.tied = way.tied;
    model.bias = way.bias;
    if (way.dropout) {
        model.dropout_embedding = 0.1;
        model.dropout_attention = 0.2;
        model.dropout_residual = 0.3;
    }
    return model;
}

StageExtents extents_here() {
    return {.micro_batch = 3,
            .sequence = 12,
            .logits_rows = 7,
            .threads = omp_get_max_threads(),
            .slots = {1},
            .gradient_buffers = 1,
            .weight_slots = 1};
}

StageShape shape_of(const Way& way) {
    StageShape shape = whole_shape(model_of(way), extents_here());
    shape.tensor = {session().size(), session().rank()};
    shape.sequence = way.sequence;
    shape.recompute = way.recompute;
    shape.recompute_interval = way.interval;
    shape.reduce_order = way.order;
    return shape;
}

TrafficShape traffic_shape(const Way& way) {
    TrafficShape shape;
    shape.group = {.size = session().size(), .rank = session().rank(), .sequence = way.sequence};
    shape.rows = 3 * 12;
    shape.hidden = 20;
    shape.logits_rows = 7;
    shape.type = Dtype::fp64;
    return shape;
}

// Bytes sent under the tensor labels since the last call.
class Meter {
public:
    TensorTraffic since_last() {
        const TensorTraffic now = read();
        const TensorTraffic before = std::exchange(last_, now);
        return {now.all_reduce - before.all_reduce, now.all_gather - before.all_gather,
                now.reduce_scatter - before.reduce_scatter};
    }

private:
    static TensorTraffic read() {
        const auto bytes = session().world().bytes_by_label();
        const auto of = [&](std::string_view label) {
            const auto found = bytes.find(label);
            return found == bytes.end() ? i64{0} : found->second;
        };
        return {of(tensor_sum_label), of(tensor_gather_label), of(tensor_scatter_label)};
    }
    TensorTraffic last_ = read();
};
void expect_traffic(Meter& meter, const TensorTraffic& expected, const char* what) {
    const TensorTraffic sent = meter.since_last();
    EXPECT_EQ(sent.all_reduce, expected.all_reduce) << what;
    EXPECT_EQ(sent.all_gather, expected.all_gather) << what;
    EXPECT_EQ(sent.reduce_scatter, expected.reduce_scatter) << what;
}

double same_on_all(double value) {
    double first = value;
    session().world().broadcast(&first, 1, Dtype::fp64, 0, "test.first").wait();
    EXPECT_EQ(value, first);
    return value;
}

// Gradients of replicated tensors are partial sums where the sequence is split: optim adds them.
void sum_replicated(TinyModel<double>& tiny, Sequence sequence) {
    for (const LocalTensor& tensor : tiny.layout.tensors()) {
        if (sequence == Sequence::split && tiny.layout.replicated(tensor)) {
            session()
                .world()
                .all_reduce(tiny.gradients.data() + tensor.offset, tensor.count, Dtype::fp64, ReduceOp::sum,
                            ReduceOrder::any, nullptr, "test.replicated")
                .wait();
        }
    }
}

// Every local part against its place in the whole model's gradient: sums of 20 to 36 terms, cut over ranks, are
// added in another order, over three layers: some 1e-15 of a tensor's norm, observed 3.2e-15. The key bias has gradient
// 0.
void expect_gradients(const TinyModel<double>& tiny, const TinyModel<double>& one) {
    const double global = norm_of<double>(one.gradients);
    for (const LocalTensor& tensor : tiny.layout.tensors()) {
        const std::string& name = tensor.parameter->name;
        const LocalTensor& whole_tensor = one.layout.tensor(name);
        const std::span<const double> expected = one.gradients.subspan(static_cast<std::size_t>(whole_tensor.offset),
                                                                       static_cast<std::size_t>(whole_tensor.count));
        double difference = 0;
        for (i64 i = 0; i < tensor.count; ++i) {
            const double mine = tiny.gradients[static_cast<std::size_t>(tensor.offset + i)];
            if (i >= tensor.logical) {
                EXPECT_EQ(mine, 0) << name << " padding";
                continue;
            }
            difference += std::pow(mine - expected[static_cast<std::size_t>(tensor.global_index(i))], 2);
        }
        const double norm = name.ends_with("key.bias") ? global : norm_of<double>(expected);
        ASSERT_TRUE(std::isfinite(difference)) << name;
        EXPECT_GT(norm, 0) << name;
        EXPECT_LE(std::sqrt(difference), 1e-14 * norm) << name;
    }
}

class TensorRanks : public testing::TestWithParam<Way> {
protected:
    const Way way = GetParam();
    const ModelConfig model = model_of(way);
    const std::vector<Batch> batches = {make_batch(model, 0, 3, 12, 4), make_batch(model, 3, 3, 12, 5)};
};

TEST_P(TensorRanks, GiveTheLossAndGradientOfOneRank) {
    TinyModel<double> one(model, extents_here());
    TinyModel<double> tiny(model, shape_of(way), &session().world());
    tiny.poison();
    const double scale = 1.0 / static_cast<double>(unmasked(batches));
    const double expected = one.step(batches, scale, 3);
    EXPECT_NEAR(same_on_all(tiny.step(batches, scale, 3)), expected, 2e-15 * expected);  // observed 2.3e-16
    sum_replicated(tiny, way.sequence);
    expect_gradients(tiny, one);
    const double held_out = one.evaluate(batches[0]);
    EXPECT_NEAR(same_on_all(tiny.evaluate(batches[0])), held_out, 2e-15 * held_out);
}

// In the fixed order recomputation and the split backward pass give the bits of the plain one.
TEST_P(TensorRanks, RecomputationAndSplitBackwardKeepTheBits) {
    Way plain = way;
    plain.order = ReduceOrder::fixed;
    plain.recompute = Recompute::none;
    TinyModel<double> expected(model, shape_of(plain), &session().world());
    const double loss = expected.step({batches[0]}, 0.05, 3);
    const std::vector<double> gradient = expected.gradient_copy();
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        Way again = plain;
        again.recompute = recompute;
        again.interval = 2;
        TinyModel<double> tiny(model, shape_of(again), &session().world());
        tiny.poison();
        EXPECT_EQ(tiny.step({batches[0]}, 0.05, 3), loss);
        EXPECT_EQ(tiny.gradient_copy(), gradient);
        tiny.poison();
        tiny.clear();
        const auto info = tiny.info_of(0.05, 3);
        tiny.stage->forward({}, batches[0], 0, 0, info);
        tiny.stage->backward_input({}, batches[0], 0, 0, 0, 0, info);
        EXPECT_EQ(tiny.take_loss(), loss);
        tiny.stage->backward_weight({}, batches[0], 0, 0, 0, info);
        EXPECT_EQ(tiny.gradient_copy(), gradient);
    }
}

TEST_P(TensorRanks, SendTheBytesOfTheFormula) {
    TinyModel<double> tiny(model, shape_of(way), &session().world());
    const TrafficShape shape = traffic_shape(way);
    const auto info = tiny.info_of(0.05, 3);
    const Batch& batch = batches[0];
    i64 again = 0;
    for (i64 layer = 0; layer < model.layers; ++layer) {
        again += recompute_of(tiny.shape, layer) == Recompute::full ? 1 : 0;
    }
    TensorTraffic forward = embedding_forward_traffic(shape);
    forward += model.layers * block_forward_traffic(shape);
    TensorTraffic backward = head_backward_traffic(shape);
    backward += model.layers * block_backward_traffic(shape);
    backward += again * block_again_traffic(shape);
    backward += embedding_backward_traffic(shape);
    const TensorTraffic weights = model.layers * block_weight_traffic(shape);
    TensorTraffic inputs = backward;
    inputs += -1 * weights;
    Meter meter;
    tiny.stage->forward({}, batch, 0, 0, info);
    expect_traffic(meter, forward, "forward");
    tiny.stage->backward({}, batch, 0, 0, 0, info);
    expect_traffic(meter, backward, "backward");
    tiny.stage->forward({}, batch, 0, 0, info);
    expect_traffic(meter, forward, "forward");
    tiny.stage->backward_input({}, batch, 0, 0, 0, 0, info);
    expect_traffic(meter, inputs, "input half");
    tiny.stage->backward_weight({}, batch, 0, 0, 0, info);
    expect_traffic(meter, weights, "weight half");
    tiny.evaluate(batch);
    forward += head_evaluate_traffic(shape);
    expect_traffic(meter, forward, "evaluation");
    EXPECT_EQ(forward.all_reduce + forward.all_gather > 0, session().size() > 1);
}

const std::vector<Way> ways = {
    {.name = "whole"},
    {.name = "whole_dropout_untied", .tied = false, .dropout = true},
    {.name = "whole_fixed_order", .dropout = true, .order = ReduceOrder::fixed},
    {.name = "whole_full_recompute", .dropout = true, .recompute = Recompute::full, .interval = 2},
    {.name = "whole_ranks_of_padding", .vocab = 5, .padded = 8},
    {.name = "split", .sequence = Sequence::split},
    {.name = "split_dropout_untied", .sequence = Sequence::split, .tied = false, .dropout = true},
    {.name = "split_fixed_order", .sequence = Sequence::split, .dropout = true, .order = ReduceOrder::fixed},
    {.name = "split_no_bias", .sequence = Sequence::split, .dropout = true, .bias = false},
    {.name = "split_selective", .sequence = Sequence::split, .recompute = Recompute::selective},
    {.name = "split_full_recompute", .sequence = Sequence::split, .dropout = true, .recompute = Recompute::full},
    {.name = "split_ranks_of_padding", .sequence = Sequence::split, .tied = false, .vocab = 5, .padded = 8},
};
INSTANTIATE_TEST_SUITE_P(Ways, TensorRanks, testing::ValuesIn(ways),
                         [](const testing::TestParamInfo<Way>& way) { return std::string(way.param.name); });

// B07: equal logits over 5 true of 8 stored words give ln 5 under every cut, and the last true word works as a target.
TEST(PaddedVocabulary, TakesNoProbabilityOverTensorRanks) {
    for (const Sequence sequence : {Sequence::whole, Sequence::split}) {
        Way way{.name = "", .sequence = sequence, .tied = false, .vocab = 5, .padded = 8};
        const ModelConfig model = model_of(way);
        TinyModel<double> tiny(model, shape_of(way), &session().world());
        const LocalTensor& table = tiny.layout.tensor("head.weight");
        for (i64 i = 0; i < table.count; ++i) {
            tiny.weights[static_cast<std::size_t>(table.offset + i)] = i < table.logical ? 0 : 3;
        }
        Batch batch = make_batch(model, 0, 3, 12);
        batch.targets[5] = 4;
        EXPECT_NEAR(tiny.step({batch}, 1.0 / 36) / 36, std::log(5.0), 1e-14);
        for (i64 i = table.logical; i < table.count; ++i) {
            EXPECT_EQ(tiny.gradients[static_cast<std::size_t>(table.offset + i)], 0);
        }
    }
}

// ---- B10: masks seen through the layers. With zero weights a branch is its bias, so that join_branch writes
// dropout(1); with zero queries and keys and values of 1 attention writes the kept share of the row.

Pass mask_pass(const Batch& batch, Sequence sequence) {
    Pass pass;
    pass.B = batch.B;
    pass.T = batch.T;
    pass.tensor = {
        .comm = &session().world(), .size = session().size(), .rank = session().rank(), .sequence = sequence};
    pass.part_T = pass.tensor.splits_positions() ? pass.T / session().size() : pass.T;
    pass.position0 = pass.tensor.splits_positions() ? pass.part_T * session().rank() : 0;
    pass.sample = batch.sample.data();
    pass.seed = 5;
    pass.step = 3;
    pass.dropout_residual = pass.dropout_attention = 0.4;
    return pass;
}

std::vector<double> residual_mask(const Batch& batch, Sequence sequence) {
    const Pass pass = mask_pass(batch, sequence);
    constexpr i64 C = 6;
    const std::vector<double> zeros(static_cast<std::size_t>(pass.all_rows() * C), 0.0);
    const std::vector<double> ones(C, 1.0);
    const Linear<double> linear{zeros.data(), ones.data(), nullptr, nullptr, C, 1};
    std::vector<double> narrow(zeros.size());
    std::vector<double> mask(static_cast<std::size_t>(pass.rows() * C), std::nan(""));
    Workspace<double> workspace;
    workspace.narrow = narrow.data();
    join_branch<double>({}, linear, 1, Site::after_mlp, mask.data(), zeros.data(), zeros.data(), workspace, pass);
    return mask;
}

TEST(Masks, B10ResidualMasksAgreeInsideATensorGroup) {
    const Batch batch = make_batch(model_of({}), 0, 3, 12);
    const std::vector<double> mine = residual_mask(batch, Sequence::whole);
    std::vector<double> first = mine;
    session().world().broadcast(first.data(), static_cast<i64>(first.size()), Dtype::fp64, 0, "test.mask").wait();
    EXPECT_EQ(mine, first);
    EXPECT_GT(std::count(mine.begin(), mine.end(), 0.0), 0);
    EXPECT_LT(std::count(mine.begin(), mine.end(), 0.0), static_cast<i64>(mine.size()));
    // Split positions draw the masks of the whole.
    const std::vector<double> part = residual_mask(batch, Sequence::split);
    const i64 piece = static_cast<i64>(part.size()) / 3;
    for (i64 b = 0; b < 3; ++b) {
        for (i64 i = 0; i < piece; ++i) {
            const i64 place = (b * session().size() + session().rank()) * piece + i;
            ASSERT_EQ(part[static_cast<std::size_t>(b * piece + i)], mine[static_cast<std::size_t>(place)]);
        }
    }
}

// Kept shares [B, T, H] of this rank's heads.
std::vector<double> attention_shares(const Batch& batch, int ranks, int rank) {
    Pass pass = mask_pass(batch, Sequence::whole);
    pass.tensor = {};
    constexpr i64 C = 6, H = 4;
    const i64 heads = H / ranks;
    const auto zeros = [](i64 n) { return std::vector<double>(static_cast<std::size_t>(n), 0.0); };
    Attention<double> layer;
    layer.layer = 1;
    layer.heads = layer.kv_heads = heads;
    layer.head_dim = 1;
    layer.heads_total = H;
    layer.head0 = rank * heads;
    const std::vector<double> weight = zeros(3 * H * C);
    std::vector<double> bias = zeros(3 * heads);
    std::fill(bias.begin() + 2 * heads, bias.end(), 1.0);
    const std::vector<double> gain(C, 1.0);
    layer.norm = {gain.data(), nullptr, nullptr, nullptr, C, 1e-5};
    layer.qkv = {weight.data(), bias.data(), nullptr, nullptr, 3 * heads, C};
    layer.out = {weight.data(), nullptr, nullptr, nullptr, C, heads};
    const i64 rows = pass.rows();
    std::vector<double> x = zeros(rows * C), y = x, norm = x, mean = zeros(rows), rstd = mean;
    std::vector<double> qkv = zeros(rows * 3 * heads), out = zeros(rows * heads), lse = out, space = zeros(1 << 20);
    Workspace<double> workspace;
    workspace.attention = space.data();
    attention_forward<double>({}, layer, y.data(), x.data(),
                              {mean.data(), rstd.data(), norm.data(), qkv.data(), out.data(), lse.data()}, workspace,
                              pass);
    return out;
}

TEST(Masks, B10AttentionMasksDifferBetweenTensorRanks) {
    const Batch batch = make_batch(model_of({}), 0, 3, 12);
    const int ranks = session().size();
    const std::vector<double> all = attention_shares(batch, 1, 0);
    const std::vector<double> mine = attention_shares(batch, ranks, session().rank());
    const i64 heads = 4 / ranks;
    for (i64 r = 0; r < 36; ++r) {
        for (i64 h = 0; h < heads; ++h) {
            ASSERT_EQ(mine[static_cast<std::size_t>(r * heads + h)],
                      all[static_cast<std::size_t>(r * 4 + session().rank() * heads + h)]);
        }
    }
    std::vector<double> first = mine;
    session().world().broadcast(first.data(), static_cast<i64>(first.size()), Dtype::fp64, 0, "test.mask").wait();
    EXPECT_EQ(mine == first, session().rank() == 0);
}

}  // namespace
}  // namespace ogrom::test
