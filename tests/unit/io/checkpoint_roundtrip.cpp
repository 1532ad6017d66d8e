#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>

#include "src/base/file.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_write.h"
#include "src/io/hdf5.h"
#include "src/io/io_thread.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;
using test::SmallState;

template <class T>
void expect_round_trip(int writers, int readers, bool tied) {
    const Folder folder;
    ModelConfig model = test::small_model();
    model.tied = tied;
    const SmallState<T> saved(model);
    CheckpointHeader header = test::small_header(7);
    header.weight_hash = weight_hash(std::span<const T>(saved.weights), saved.layout);
    test::as_ranks(writers, [&](Communicator& dp) {
        save_checkpoint<T>(dp, folder.path(), header, saved.layout, model, saved.const_view(), 2);
    });
    std::vector<i64> wrong(static_cast<std::size_t>(readers), -1);
    test::as_ranks(readers, [&](Communicator& dp) {
        SmallState<T> loaded(model);
        loaded.poison();
        std::vector<std::string> skipped;
        load_checkpoint<T>(dp, folder.path("step-00000007"), loaded.layout, loaded.view(), true, skipped);
        wrong[static_cast<std::size_t>(dp.rank())] = loaded.wrong() + static_cast<i64>(skipped.size());
    });
    EXPECT_EQ(wrong, std::vector<i64>(static_cast<std::size_t>(readers), 0)) << writers << " writers, tied " << tied;
}

TEST(Checkpoint, RoundTripForEveryNumberOfWritersAndReaders) {
    for (const int writers : {1, 2, 3, 4, 7}) {
        expect_round_trip<float>(writers, 1, true);
    }
    expect_round_trip<float>(4, 3, false);
    expect_round_trip<double>(3, 2, true);
    expect_round_trip<double>(1, 1, false);
}

TEST(Checkpoint, StateWithoutMomentsAndWeightsAlone) {
    const Folder folder;
    SmallState<float> state(test::small_model());
    CheckpointHeader header = test::small_header(1);
    header.weight_hash = weight_hash(std::span<const float>(state.weights), state.layout);
    const auto single = make_single_communicator();
    save_checkpoint<float>(*single, folder.path(), header, state.layout, state.model, {state.weights, {}, {}}, 0);
    std::vector<std::string> skipped;
    const std::vector<float> before = state.weights;
    state.weights.assign(state.weights.size(), NAN);
    load_checkpoint<float>(*single, folder.path("step-00000001"), state.layout, {state.weights, {}, {}}, true, skipped);
    i64 different = 0;
    for (const LocalTensor& tensor : state.layout.tensors()) {
        for (i64 e = tensor.offset; e < tensor.offset + tensor.logical; ++e) {
            different += state.weights[static_cast<std::size_t>(e)] == before[static_cast<std::size_t>(e)] ? 0 : 1;
        }
    }
    EXPECT_EQ(different, 0);
    // Moments that the file does not have are missing, by name.
    const std::string text = test::fault_text([&] {
        load_checkpoint<float>(*single, folder.path("step-00000001"), state.layout, state.view(), true, skipped);
    });
    EXPECT_NE(text.find("missing: /moment1 (all "), std::string::npos) << text;
    EXPECT_NE(text.find("missing: /moment2 (all "), std::string::npos) << text;
}

TEST(Checkpoint, HeaderAndModelComeBack) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 12, 2);
    const CheckpointHeader wanted = test::small_header(12), header = read_header(step);
    EXPECT_EQ(header.format, 1);
    EXPECT_EQ(header.step, 12);
    EXPECT_EQ(header.seed, wanted.seed);
    EXPECT_EQ(header.tokenizer, wanted.tokenizer);
    EXPECT_EQ(header.tokenizer_path, wanted.tokenizer_path);
    EXPECT_EQ(header.run_toml, wanted.run_toml);
    EXPECT_EQ(header.provenance_json, wanted.provenance_json);
    EXPECT_EQ(header.skipped_steps, 3);
    EXPECT_EQ(header.best_valid_loss, 2.5);
    EXPECT_EQ(header.extra, wanted.extra);
    EXPECT_EQ(header.cursor.version, 1);
    EXPECT_EQ(header.cursor.seed, wanted.cursor.seed);
    EXPECT_EQ(header.cursor.total_samples, 96);
    ASSERT_EQ(header.cursor.sources.size(), 2u);
    EXPECT_EQ(header.cursor.sources[0].id, "set-a");
    EXPECT_EQ(header.cursor.sources[1].weight, 0.25);
    EXPECT_EQ(header.cursor.sources[0].epoch, 2);
    EXPECT_EQ(header.cursor.sources[1].consumed, 11);
    const ModelConfig model = read_model(folder.path()), small = test::small_model();
    EXPECT_EQ(model.ffn_hidden, small.ffn_hidden);
    EXPECT_EQ(model.vocab, small.vocab);
    EXPECT_EQ(model.padded_vocab, small.padded_vocab);
    EXPECT_EQ(model.sequence, small.sequence);
    EXPECT_EQ(model.tied, small.tied);
    EXPECT_EQ(model.norm_epsilon, small.norm_epsilon);
    EXPECT_EQ(model.norm, NormKind::layer);
}

// Any program that reads HDF5 sees whole tensors; h5dump stands for them.
TEST(Checkpoint, H5dumpReadsATensorThroughTheMaster) {
    if (std::system("h5dump --version > /dev/null 2>&1") != 0) {
        GTEST_SKIP() << "h5dump is not installed";
    }
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 3, 4);
    const std::string text = folder.path("dump.txt");
    const std::string command =
        "h5dump -m %.2f -w 1 -d /moment2/embedding.position.weight " + step + "/checkpoint.h5 > " + text + " 2>&1";
    ASSERT_EQ(std::system(command.c_str()), 0);
    std::ifstream file(text);
    i64 next = 0;  // element e of tensor 1 is 4096 + e + 0.5
    for (std::string line; std::getline(file, line) && line.find("ATTRIBUTE") == std::string::npos;) {
        const auto colon = line.find("): ");
        if (colon != std::string::npos) {
            EXPECT_EQ(std::stod(line.substr(colon + 3)), 4096.5 + static_cast<double>(next));
            ++next;
        }
    }
    EXPECT_EQ(next, 13 * 10);
}

// Parts hold 1/n of each state kind each, in one piece, less the padding in it.
TEST(Checkpoint, EveryWriterWritesItsShare) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 3, 3);
    const SmallState<float> state(test::small_model());
    i64 all = 0;
    for (int writer = 0; writer < 3; ++writer) {
        const std::string path = step + "/" + part_name(writer);
        on_io_thread([&] {
            const h5::File file = h5::open_read(path);
            i64 elements = 0;
            for (const TensorPiece& piece : pieces(state.layout, writer_range(state.layout.size(), writer, 3))) {
                elements += piece.count();
            }
            all += elements;
            EXPECT_EQ(h5::get_i64(file.get(), "writer", path), writer);
            const h5::Dataset dataset = h5::open_dataset(file.get(), "/moment1", path);
            EXPECT_EQ(h5::shape(dataset.get(), path, "moment1"), std::vector<i64>{elements});
        });
    }
    EXPECT_EQ(all, state.table.count());
}

TEST(Checkpoint, NoDescriptorGrowthOverTwentySaves) {
    const Folder folder;
    const auto open_descriptors = [] {
        i64 count = 0;
        for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
            ++count;
        }
        return count;
    };
    test::save_small<float>(folder.path(), 1, 2, 1);
    const i64 before = open_descriptors();
    for (i64 step = 2; step < 22; ++step) {
        test::save_small<float>(folder.path(), step, 2, 1);
        ASSERT_EQ(open_descriptors(), before);
    }
    EXPECT_EQ(list_directory(folder.path()), (std::vector<std::string>{"latest", "step-00000021"}));
    EXPECT_EQ(read_file(folder.path("latest"), 100), "step-00000021\n");
}

}  // namespace
}  // namespace ogrom
