// What a load costs each rank, measured by the kernel: the peak of its memory beyond the state that it fills, and the
// bytes that it takes from the files, for state of some hundred MiB under layouts that cut it in different ways.
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>

#include "src/base/file.h"
#include "src/comm/mesh.h"
#include "src/config/layer_map.h"
#include "src/device/memory.h"
#include "src/io/checkpoint_layout.h"
#include "src/io/checkpoint_write.h"
#include "src/io/manifest.h"

#include "tests/mpi/folder.h"
#include "tests/mpi/world.h"

namespace ogrom {
namespace {

constexpr const char* groups[] = {"weights", "moment1", "moment2"};

ModelConfig model_of(i64 layers, i64 hidden, i64 vocab) {
    ModelConfig model;
    model.layers = layers;
    model.hidden = hidden;
    model.heads = model.kv_heads = 8;
    model.head_dim = hidden / 8;
    model.ffn_hidden = 4 * hidden;
    model.vocab = vocab;
    model.padded_vocab = round_up(vocab, 64);
    model.sequence = 64;
    return model;
}

// This rank's state and nothing else: all of its stage and tensor part, or under ZeRO 3 its share of that.
class Holder {
public:
    Holder(const ParameterTable& table, const ModelConfig& model, const ParallelConfig& parallel)
        : mesh_(make_mesh(test::session().world(), parallel)),
          layout(table, stage_spans(model, parallel, mesh_.place.pp), TensorPart{mesh_.shape.tp, mesh_.place.tp}),
          own_(writer_range(layout.size(), mesh_.place.dp, mesh_.shape.dp)),
          range_(parallel.zero == 3 ? own_ : FlatRange{0, layout.size()}) {
        for (const char* name : groups) {
            memory_.emplace_back(static_cast<std::size_t>(range_.count()), -1.0f);  // each page is there
            held.push_back({name, {{range_, memory_.back().data()}}});
        }
    }
    // A value by the element's place in the logical tensor; the same for every layout.
    static float value(std::size_t group, const TensorPiece& piece, i64 i) {
        const i64 row = piece.row + i / piece.cols, col = piece.col + i % piece.cols;
        return static_cast<float>((row * 131 + col * 7 + piece.tensor * 13) % 8191) + 0.25f * static_cast<float>(group);
    }
    template <class Visit>
    void visit(Visit&& visit) {
        for (std::size_t g = 0; g < memory_.size(); ++g) {
            for (const TensorPiece& piece : pieces(layout, range_, Copies::all)) {
                for (i64 i = 0; i < piece.count(); ++i) {
                    visit(memory_[g][static_cast<std::size_t>(piece.source + i)], value(g, piece, i));
                }
            }
        }
    }
    [[nodiscard]] i64 bytes() const { return 3 * 4 * range_.count(); }
    [[nodiscard]] u64 hash() const {
        return weight_hash<float>(memory_[0].data() + (own_.first - range_.first), own_, layout);
    }
    [[nodiscard]] std::vector<StateGroup<const float>> writes() const {
        std::vector<StateGroup<const float>> list;
        for (std::size_t g = 0; g < memory_.size(); ++g) {
            list.push_back({groups[g], {{own_, memory_[g].data() + (own_.first - range_.first)}}});
        }
        return list;
    }

private:
    Mesh mesh_;

public:
    const ParameterLayout layout;
    std::vector<StateGroup<float>> held;

private:
    FlatRange own_, range_;
    std::vector<std::vector<float>> memory_;
};

ParallelConfig layout_of(i64 pp, i64 dp, i64 tp, i64 zero) {
    ParallelConfig parallel;
    parallel.pipeline = pp;
    parallel.data = parallel.zero_group = dp;
    parallel.tensor = tp;
    parallel.zero = zero;
    return parallel;
}

void save(const std::string& folder, const ParameterTable& table, const ModelConfig& model) {
    Communicator& world = test::session().world();
    Holder saver(table, model, layout_of(1, world.size(), 1, 3));
    saver.visit([](float& at, float value) { at = value; });
    CheckpointHeader header;
    header.step = 1;
    header.weight_hash = saver.hash();
    world.all_reduce(&header.weight_hash, 1, Dtype::u64, ReduceOp::sum, ReduceOrder::any, nullptr, "hash").wait();
    const auto writes = saver.writes();
    save_checkpoint<float>(world, folder, header, saver.layout, model, std::span(writes), 1);
}

// Bytes that this process has asked read(2) and its like for.
i64 asked_of_files() {
    std::ifstream in("/proc/self/io");
    std::string name;
    i64 value = 0;
    in >> name >> value;
    EXPECT_EQ(name, "rchar:");
    return value;
}

struct Cost {
    LoadReport report;
    i64 peak = 0;   // beyond what was held before
    i64 asked = 0;  // of files
};

Cost load(Holder& loader, const std::string& folder) {
    reset_peak();
    const ResidentMemory before = resident_memory();
    const i64 held = before.anonymous + before.file + before.shared, asked = asked_of_files();
    std::vector<std::string> skipped;
    Cost cost;
    cost.report = load_checkpoint<float>(test::session().world(), folder, loader.layout,
                                         std::span<const StateGroup<float>>(loader.held), true, skipped);
    EXPECT_TRUE(skipped.empty());
    cost.asked = asked_of_files() - asked;
    cost.peak = resident_memory().peak - held;
    return cost;
}

bool peak_can_be_reset() {
    std::vector<char> touched(std::size_t{32} << 20, 1);
    const i64 high = resident_memory().peak;
    EXPECT_EQ(touched[touched.size() - 1], 1);
    std::vector<char>().swap(touched);
    reset_peak();
    return high - resident_memory().peak > i64{16} << 20;
}

std::vector<ParallelConfig> layouts_of(i64 ranks) {
    std::vector<ParallelConfig> all = {layout_of(1, ranks, 1, 3), layout_of(1, ranks, 1, 1)};
    if (ranks > 1) {
        all.insert(all.end(), {layout_of(1, 1, ranks, 0), layout_of(ranks, 1, 1, 0)});
    }
    if (ranks == 4) {
        all.insert(all.end(), {layout_of(2, 1, 2, 0), layout_of(1, 2, 2, 3)});
    }
    return all;
}

// 240 MiB of state. What a load takes beside the state is the ledger's line io.checkpoint, which does not grow with it.
TEST(CheckpointPeak, ARankHoldsItsShardAndAConstantAndReadsItsShardAlone) {
    Communicator& world = test::session().world();
    if (!peak_can_be_reset()) {
        GTEST_SKIP() << "no privilege to reset the peak (/proc/self/clear_refs)";
    }
    const test::SharedFolder folder;
    const ModelConfig small = model_of(1, 32, 100), model = model_of(6, 512, 4000);
    const ParameterTable tiny(make_parameters(small, Dtype::fp32)), table(make_parameters(model, Dtype::fp32));
    // Pages of the libraries, buffers of MPI: once per process.
    save(folder.path + "/small", tiny, small);
    Holder first(tiny, small, layout_of(1, world.size(), 1, 3));
    load(first, folder.path + "/small");

    save(folder.path + "/large", table, model);
    i64 files = 0;
    const Manifest manifest = read_manifest(folder.path + "/large/step-00000001");
    for (const FileRecord& record : manifest.files) {
        files += record.bytes;
    }
    const i64 constant = checkpoint_staging_bytes(static_cast<i64>(table.rows().size()), 3, world.size());
    for (const ParallelConfig& parallel : layouts_of(world.size())) {
        SCOPED_TRACE(
            fmt::format("pp {} dp {} tp {} zero {}", parallel.pipeline, parallel.data, parallel.tensor, parallel.zero));
        Holder loader(table, model, parallel);
        const Cost cost = load(loader, folder.path + "/large");
        i64 wrong = 0;
        loader.visit([&](float at, float value) { wrong += at == value ? 0 : 1; });
        EXPECT_EQ(wrong, 0);
        EXPECT_LE(cost.peak, constant);
        EXPECT_LE(cost.report.bytes_read, loader.bytes());
        EXPECT_GT(cost.report.bytes_read, loader.bytes() * 98 / 100) << "all but padding";
        EXPECT_LE(cost.asked,
                  cost.report.bytes_verified + cost.report.bytes_read + cost.report.bytes_read / 50 + constant);
        i64 verified = cost.report.bytes_verified;
        world.all_reduce(&verified, 1, Dtype::i64, ReduceOp::sum, ReduceOrder::any, nullptr, "verified").wait();
        EXPECT_EQ(verified, files) << "every byte is hashed once, whatever the ranks";
        EXPECT_LE(cost.report.bytes_verified, files / world.size() + manifest_block_bytes);
    }
}

}  // namespace
}  // namespace ogrom
