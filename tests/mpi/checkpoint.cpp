// Save and load over real ranks: one layout writes, others read, every element compared on the rank that holds it.
#include "src/io/checkpoint.h"

#include <gtest/gtest.h>

#include "src/base/file.h"
#include "src/comm/mesh.h"
#include "src/config/layer_map.h"
#include "src/io/checkpoint_layout.h"

#include "tests/mpi/folder.h"
#include "tests/mpi/world.h"

namespace ogrom {
namespace {

ModelConfig odd_model() {
    ModelConfig model;
    model.layers = 3;
    model.hidden = 60;
    model.heads = model.kv_heads = 6;
    model.head_dim = 10;
    model.ffn_hidden = 44;
    model.vocab = 509;
    model.padded_vocab = 512;
    model.sequence = 13;
    return model;
}

// This rank under a layout: weights whole unless ZeRO 3, the moment a shard of the data ranks under ZeRO 1-3.
class Rank {
public:
    Rank(const ParameterTable& table, const ModelConfig& model, const ParallelConfig& parallel)
        : mesh_(make_mesh(test::session().world(), parallel)),
          layout(table, stage_spans(model, parallel, mesh_.place.pp), TensorPart{mesh_.shape.tp, mesh_.place.tp}),
          own_(writer_range(layout.size(), mesh_.place.dp, mesh_.shape.dp)),
          weights_(static_cast<std::size_t>(layout.size())),
          moment_(weights_.size()) {
        const FlatRange whole{0, layout.size()};
        const FlatRange weights = parallel.zero == 3 ? own_ : whole, moment = parallel.zero > 0 ? own_ : whole;
        held = {{"weights", {{weights, weights_.data() + weights.first}}},
                {"moment1", {{moment, moment_.data() + moment.first}}}};
    }
    [[nodiscard]] std::vector<StateGroup<const double>> writes() const {
        return {{"weights", {{own_, weights_.data() + own_.first}}},
                {"moment1", {{own_, moment_.data() + own_.first}}}};
    }
    void fill(double missing) {
        for (const StateGroup<double>& group : held) {
            for (const TensorPiece& piece : pieces(layout, group.ranges[0].flat, Copies::all)) {
                for (i64 i = 0; i < piece.count(); ++i) {
                    group.ranges[0].data[piece.source + i] = missing != 0 ? missing : value(group.name, piece, i);
                }
            }
        }
    }
    [[nodiscard]] i64 wrong() const {
        i64 count = 0;
        for (const StateGroup<double>& group : held) {
            for (const TensorPiece& piece : pieces(layout, group.ranges[0].flat, Copies::all)) {
                for (i64 i = 0; i < piece.count(); ++i) {
                    count += group.ranges[0].data[piece.source + i] == value(group.name, piece, i) ? 0 : 1;
                }
            }
        }
        return count;
    }
    [[nodiscard]] u64 hash() const { return weight_hash<double>(weights_.data() + own_.first, own_, layout); }

private:
    Mesh mesh_;

public:
    const ParameterLayout layout;
    std::vector<StateGroup<double>> held;

private:
    static double value(const std::string& group, const TensorPiece& piece, i64 i) {
        const i64 row = piece.row + i / piece.cols, col = piece.col + i % piece.cols;
        return static_cast<double>(1000000 * piece.tensor + 1000 * row + col) + (group == "weights" ? 0.25 : 0.5);
    }
    FlatRange own_;
    std::vector<double> weights_, moment_;
};

ParallelConfig layout_of(i64 pp, i64 dp, i64 tp, i64 zero) {
    ParallelConfig parallel;
    parallel.pipeline = pp;
    parallel.data = parallel.zero_group = dp;
    parallel.tensor = tp;
    parallel.zero = zero;
    return parallel;
}

std::vector<ParallelConfig> layouts_of(int ranks) {
    if (ranks == 4) {
        return {layout_of(2, 1, 2, 0), layout_of(1, 4, 1, 1), layout_of(1, 4, 1, 3), layout_of(1, 2, 2, 2)};
    }
    return ranks == 2 ? std::vector{layout_of(2, 1, 1, 0), layout_of(1, 2, 1, 1), layout_of(1, 1, 2, 0)}
                      : std::vector{layout_of(1, ranks, 1, 0), layout_of(1, ranks, 1, 3)};
}

TEST(CheckpointRanks, B17EveryLayoutLoadsWhatAnotherSaved) {
    Communicator& world = test::session().world();
    const test::SharedFolder folder;
    const ModelConfig model = odd_model();
    const ParameterTable table = make_parameters(model, Dtype::fp64);
    i64 step = 0;
    for (const ParallelConfig& from : layouts_of(world.size())) {
        Rank saver(table, model, from);
        saver.fill(0);
        CheckpointHeader header;
        header.step = ++step;
        const u64 mine = saver.hash();
        std::vector<u64> all(static_cast<std::size_t>(world.size()));
        world.all_gather(all.data(), &mine, 1, Dtype::u64, "hash").wait();
        for (const u64 part : all) {
            header.weight_hash += part;
        }
        const auto writes = saver.writes();
        save_checkpoint<double>(world, folder.path, header, saver.layout, model, std::span(writes), 1);
        for (const ParallelConfig& to : layouts_of(world.size())) {
            Rank loader(table, model, to);
            loader.fill(-7777);
            std::vector<std::string> skipped;
            const LoadReport report = load_checkpoint<double>(
                world, folder.path, loader.layout, std::span<const StateGroup<double>>(loader.held), true, skipped);
            EXPECT_EQ(loader.wrong(), 0) << "saved as " << step;
            EXPECT_TRUE(skipped.empty());
            EXPECT_GT(report.bytes_read, 0);
        }
    }
    if (test::session().rank() == 0) {
        EXPECT_EQ(list_directory(folder.path).size(), 2u);  // the newest, and `latest`
    }
    world.barrier("read").wait();
}

TEST(CheckpointRanks, AMissingRangeIsTheSameErrorOnEveryRank) {
    Communicator& world = test::session().world();
    const test::SharedFolder folder;
    const ModelConfig model = odd_model();
    const ParameterTable table = make_parameters(model, Dtype::fp64);
    Rank saver(table, model, layout_of(1, world.size(), 1, 1));
    saver.fill(0);
    auto writes = saver.writes();
    if (world.rank() == world.size() - 1) {
        writes[1].ranges[0].flat.last -= 3;  // the end of the last tensor
    }
    std::string text;
    try {
        CheckpointHeader header;
        save_checkpoint<double>(world, folder.path, header, saver.layout, model,
                                std::span<const StateGroup<const double>>(writes), 1);
    } catch (const Error& error) {
        text = error.what();
    }
    EXPECT_NE(text.find("/moment1/final_norm.bias: rows 57 to 59, columns 0 are written by no rank"), std::string::npos)
        << text;
    world.barrier("looked at").wait();
    if (test::session().rank() == 0) {
        EXPECT_TRUE(list_directory(folder.path).empty());
    }
}

}  // namespace
}  // namespace ogrom
