// Any checkpoint loads under any layout, bit for bit; ranks are simulated or threads.
#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/file.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_load.h"
#include "src/io/checkpoint_shared.h"
#include "src/io/io_thread.h"

#include "tests/unit/io/layouts.h"
#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;
using test::MeshCase;
using test::MeshRank;

// Reads `step` on every rank of `mesh`, one after the other, and compares every element.
template <class T>
void expect_loads(const std::string& step, const MeshCase& mesh, bool tied = true) {
    const ModelConfig model = test::odd_model(tied);
    const ParameterTable table = make_parameters(model, dtype_of<T>());
    const Manifest manifest = read_manifest(step);
    for (int rank = 0; rank < mesh.size(); ++rank) {
        MeshRank<T> one(table, model, mesh, rank);
        one.poison();
        const LoadTarget target = load_target<T>(one.held(), one.layout);
        const LoadResult result = on_io_thread([&] { return load_state(step, manifest, one.layout, target, true); });
        EXPECT_EQ(one.wrong(), 0) << mesh.text() << " rank " << rank;
        EXPECT_EQ(result.left_out, std::vector<std::string>());
        EXPECT_EQ(result.bytes_read, one.elements() * static_cast<i64>(sizeof(T))) << "reads only what it needs";
    }
}

const std::vector<MeshCase> meshes = {
    {.dp = 4, .zero = 1},
    {},
    {.dp = 2, .zero = 2},
    {.dp = 3, .zero = 1},
    {.dp = 5, .zero = 3},
    {.dp = 6, .zero = 1},
    {.dp = 4, .zero = 3, .group = 2},
    {.tp = 2},
    {.tp = 4},
    {.dp = 3, .tp = 2, .zero = 3},
    {.pp = 2},
    {.pp = 3, .dp = 2, .zero = 1},
    {.pp = 2, .tp = 2},
    {.pp = 2, .dp = 4, .tp = 2, .zero = 3, .group = 2},
    {.pp = 1, .dp = 4},
    {.pp = 1, .dp = 1, .tp = 1, .zero = 0, .group = 0, .chunks = 3},
    {.pp = 2, .dp = 2, .tp = 2, .zero = 2, .group = 1},
};

// Every layout saves; the first (4 data ranks, ZeRO 1) is read under all, the others under every fifth, each shifted.
TEST(CheckpointReshard, B17AnyLayoutLoadsUnderAnyOther) {
    const Folder folder;
    const u64 hash = read_header(test::save_mesh<float>(folder.path("alone"), {})).weight_hash;
    for (std::size_t i = 0; i < meshes.size(); ++i) {
        const std::string step = test::save_mesh<float>(folder.path(), meshes[i]);
        SCOPED_TRACE(meshes[i].text());
        EXPECT_EQ(read_header(step).weight_hash, hash);
        for (std::size_t j = 0; j < meshes.size(); ++j) {
            if (i == 0 || (i + j) % 5 == 0) {
                expect_loads<float>(step, meshes[j]);
            }
        }
    }
}

TEST(CheckpointReshard, B17InDoubleAndUntied) {
    const Folder folder;
    const std::vector<std::pair<MeshCase, MeshCase>> pairs = {
        {{.dp = 4, .zero = 1}, {.dp = 3, .tp = 2, .zero = 3}},
        {{.pp = 2, .tp = 2}, {.dp = 5, .zero = 2}},
        {{.dp = 6, .zero = 3}, {.pp = 2, .tp = 4}},
    };
    for (const auto& [from, to] : pairs) {
        for (const bool tied : {true, false}) {
            expect_loads<double>(test::save_mesh<double>(folder.path(), from, tied), to, tied);
        }
    }
}

// The whole way over a communicator of ranks: save under one mesh, load under another.
TEST(CheckpointReshard, SaveAndLoadOverRanks) {
    const Folder folder;
    const ModelConfig model = test::odd_model();
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    const MeshCase from{.pp = 2, .dp = 2, .tp = 2, .zero = 1, .group = 1}, to{.dp = 3, .tp = 2, .zero = 3};
    CheckpointHeader header = test::small_header(5);
    header.weight_hash = read_header(test::save_mesh<float>(folder.path("reference"), from)).weight_hash;
    test::as_ranks(from.size(), [&](Communicator& world) {
        MeshRank<float> one(table, model, from, world.rank());
        one.fill();
        const auto writes = one.writes();
        save_checkpoint<float>(world, folder.path("run"), header, one.layout, model, std::span(writes), 1);
    });
    // The second replica of each stage writes no part.
    const std::string step = folder.path("run/step-00000005");
    EXPECT_EQ(list_directory(step), (std::vector<std::string>{"checkpoint.h5", "manifest.json", "part-00000.h5",
                                                              "part-00001.h5", "part-00004.h5", "part-00005.h5"}));
    for (const MeshCase& mesh : {from, to, MeshCase{.pp = 2}, MeshCase{.dp = 4}}) {
        std::vector<i64> wrong(static_cast<std::size_t>(mesh.size()), -1);
        test::as_ranks(mesh.size(), [&](Communicator& world) {
            MeshRank<float> one(table, model, mesh, world.rank());
            one.poison();
            std::vector<std::string> skipped;
            const LoadReport report = load_checkpoint<float>(world, step, one.layout, one.held(), true, skipped);
            wrong[static_cast<std::size_t>(world.rank())] =
                one.wrong() + (report.bytes_read == 4 * one.elements() ? 0 : 1);
        });
        EXPECT_EQ(wrong, std::vector<i64>(wrong.size(), 0)) << mesh.text();
    }
}

TEST(CheckpointReshard, TheWeightHashOverRanksSeesAnotherValue) {
    const Folder folder;
    const ModelConfig model = test::odd_model();
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    const MeshCase mesh{.dp = 2, .tp = 2, .zero = 3};
    std::vector<std::string> faults;
    test::as_ranks(
        mesh.size(),
        [&](Communicator& world) {
            MeshRank<float> one(table, model, mesh, world.rank());
            one.fill();
            const auto writes = one.writes();
            save_checkpoint<float>(world, folder.path(), test::small_header(5), one.layout, model, std::span(writes),
                                   1);
            std::vector<std::string> skipped;
            load_checkpoint<float>(world, folder.path(), one.layout, one.held(), true, skipped);
        },
        &faults);
    for (const std::string& fault : faults) {
        EXPECT_NE(fault.find("those that were saved had 0000000000000000"), std::string::npos) << fault;
    }
}

TEST(CheckpointReshard, StateOfAnyNameIsHeldAndMissedByName) {
    const Folder folder;
    const test::SmallState<double> state(test::small_model());
    const auto single = make_single_communicator();
    std::vector<double> feedback(state.weights.size()), loaded(feedback.size());
    for (std::size_t i = 0; i < feedback.size(); ++i) {
        feedback[i] = 0.5 - static_cast<double>(i);
    }
    CheckpointHeader header = test::small_header(5);
    header.weight_hash = weight_hash(std::span<const double>(state.weights), state.layout);
    const FlatRange whole{0, state.layout.size()};
    const std::vector<StateGroup<const double>> groups = {{"weights", {{whole, state.weights.data()}}},
                                                          {"error_feedback", {{whole, feedback.data()}}}};
    save_checkpoint<double>(*single, folder.path(), header, state.layout, state.model, std::span(groups), 1);
    const std::vector<StateGroup<double>> wanted = {{"error_feedback", {{whole, loaded.data()}}}};
    std::vector<std::string> skipped;
    const auto load = [&](const std::vector<StateGroup<double>>& asked) {
        load_checkpoint<double>(*single, folder.path(), state.layout, std::span(asked), true, skipped);
    };
    // Asking for more than the weights is a training run: what it does not ask for is unexpected.
    EXPECT_NE(test::fault_text([&] { load(wanted); }).find("unexpected: /weights"), std::string::npos);
    std::vector<double> weights(feedback.size());
    std::vector<StateGroup<double>> both = wanted;
    both.push_back({"weights", {{whole, weights.data()}}});
    load(both);
    for (const LocalTensor& tensor : state.layout.tensors()) {
        for (i64 e = 0; e < tensor.logical && tensor.parameter->tie.empty(); ++e) {
            const auto at = static_cast<std::size_t>(tensor.offset + e);
            ASSERT_EQ(loaded[at], feedback[at]) << tensor.parameter->name;
        }
    }
    both.push_back({"fp8_amax", {}});
    EXPECT_NE(test::fault_text([&] { load(both); }).find("missing: /fp8_amax (all tensors)"), std::string::npos);
    for (const char* name : {"", "model", "a/b", "..", "weights"}) {
        std::vector<StateGroup<const double>> bad = groups;
        bad[1].name = name;
        EXPECT_NE(test::fault_text([&] {
                      save_checkpoint<double>(*single, folder.path(), header, state.layout, state.model,
                                              std::span<const StateGroup<const double>>(bad), 1);
                  }).find("a checkpoint cannot hold a"),
                  std::string::npos)
            << name;
    }
}

}  // namespace
}  // namespace ogrom
