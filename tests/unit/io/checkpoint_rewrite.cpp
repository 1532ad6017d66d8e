#include "src/io/checkpoint_rewrite.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/io/describe.h"
#include "src/io/output_folder.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using test::SmallState;

template <class T>
i64 wrong_after_load(const std::string& checkpoint) {
    SmallState<T> state(test::small_model());
    state.poison();
    std::vector<std::string> skipped;
    load_checkpoint<T>(*make_single_communicator(), checkpoint, state.layout, state.view(), true, skipped);
    return state.wrong();
}

std::string file_bytes(const std::string& path) {
    return read_file(path, i64{1} << 30);
}

TEST(CheckpointRewrite, EveryNumberOfWritersHoldsTheSameBits) {
    const Folder folder;
    const std::string source = test::save_small<float>(folder.path("run"), 4, 3);
    for (const int writers : {1, 2, 3, 7, 64}) {
        const std::string out = folder.path("out-" + std::to_string(writers));
        const RewriteReport report = rewrite_checkpoint(source, out, writers, Kept::everything);
        EXPECT_EQ(report.step, 4);
        EXPECT_EQ(report.groups, 3);
        EXPECT_EQ(report.files, writers + 1);
        EXPECT_EQ(report.elements, 3 * SmallState<float>(test::small_model()).table.count());
        EXPECT_EQ(wrong_after_load<float>(out), 0) << writers << " writers";
        const std::vector<Difference> differences = compare_checkpoints(source, out);
        EXPECT_GT(differences.size(), 30u);
        for (const Difference& one : differences) {
            EXPECT_TRUE(one.note.empty() && one.unequal == 0) << one.path << " " << one.note;
        }
        const CheckpointHeader before = read_header(source), after = read_header(out);
        EXPECT_EQ(after.weight_hash, before.weight_hash);
        EXPECT_EQ(after.run_toml, before.run_toml);
        EXPECT_EQ(after.provenance_json, before.provenance_json);
        EXPECT_EQ(after.extra, before.extra);
        EXPECT_EQ(after.cursor.total_samples, before.cursor.total_samples);
        EXPECT_EQ(after.seed, before.seed);
        EXPECT_EQ(after.skipped_steps, before.skipped_steps);
        EXPECT_EQ(after.best_valid_loss, before.best_valid_loss);
        EXPECT_EQ(list_directory(out).size(), static_cast<std::size_t>(writers) + 2);
    }
    // What one writer holds is the same file, whichever checkpoint it came from. (The master names the time.)
    rewrite_checkpoint(folder.path("out-7"), folder.path("back"), 1, Kept::everything);
    EXPECT_TRUE(file_bytes(folder.path("back/part-00000.h5")) == file_bytes(folder.path("out-1/part-00000.h5")));
}

TEST(CheckpointRewrite, DoublesAndUntiedTablesToo) {
    const Folder folder;
    const std::string source = test::save_small<double>(folder.path("run"), 4, 2);
    rewrite_checkpoint(source, folder.path("out"), 3, Kept::everything);
    EXPECT_EQ(wrong_after_load<double>(folder.path("out")), 0);

    ModelConfig model = test::small_model();
    model.tied = false;
    const SmallState<float> state(model);
    CheckpointHeader header = test::small_header(9);
    header.weight_hash = weight_hash(std::span<const float>(state.weights), state.layout);
    save_checkpoint<float>(*make_single_communicator(), folder.path("untied"), header, state.layout, model,
                           state.const_view(), 0);
    rewrite_checkpoint(folder.path("untied"), folder.path("step-00000009"), 2, Kept::everything);
    for (const Difference& one :
         compare_checkpoints(folder.path("untied/step-00000009"), folder.path("step-00000009"))) {
        EXPECT_TRUE(one.note.empty() && one.unequal == 0) << one.path << " " << one.note;
    }
}

TEST(CheckpointRewrite, WeightsOnlyLeavesTheRestOfTheStateOut) {
    const Folder folder;
    const std::string source = test::save_small<float>(folder.path("run"), 4, 2);
    const std::string out = folder.path("weights");
    EXPECT_EQ(rewrite_checkpoint(source, out, 1, Kept::weights).groups, 1);
    SmallState<float> state(test::small_model());
    std::vector<std::string> skipped;
    load_checkpoint<float>(*make_single_communicator(), out, state.layout, {state.weights, {}, {}}, true, skipped);
    const std::string fault = test::fault_text(
        [&] { load_checkpoint<float>(*make_single_communicator(), out, state.layout, state.view(), true, skipped); });
    EXPECT_NE(fault.find("missing: /moment1 (all tensors)"), std::string::npos) << fault;
}

// The record of the steps after the save is of the state, whatever the parts; it goes with the whole state alone.
TEST(CheckpointRewrite, TheTraceBesideACheckpointGoesAlong) {
    const Folder folder;
    const std::string source = test::save_small<float>(folder.path("run"), 4, 2);
    write_file_atomic(source + "/trace.json", "{\"steps\": []}\n");
    rewrite_checkpoint(source, folder.path("out"), 1, Kept::everything);
    EXPECT_EQ(file_bytes(folder.path("out/trace.json")), "{\"steps\": []}\n");
    rewrite_checkpoint(source, folder.path("weights"), 1, Kept::weights);
    EXPECT_FALSE(file_exists(folder.path("weights/trace.json")));
}

TEST(CheckpointRewrite, WhatIsRefusedLeavesNothing) {
    const Folder folder;
    const std::string source = test::save_small<float>(folder.path("run"), 4, 2);
    const auto refused = [&](const std::string& out, ExitCode code, const std::string& part) {
        const std::size_t before = list_directory(folder.path()).size();
        try {
            rewrite_checkpoint(source, out, 1, Kept::everything);
            ADD_FAILURE() << "no error: " << part;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), code) << error.what();
            EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
        }
        EXPECT_EQ(list_directory(folder.path()).size(), before);
    };
    refused(folder.path("step-00000005"), ExitCode::usage, "is named for step 5");
    refused(source, ExitCode::usage, "is there already");
    refused("", ExitCode::usage, "--out is empty");
    {
        std::fstream part(source + "/part-00001.h5", std::ios::in | std::ios::out | std::ios::binary);
        part.seekp(3000);
        part.put('\x7f');
    }
    refused(folder.path("out"), ExitCode::checkpoint, "part-00001.h5: block 0");
}

TEST(CheckpointRewrite, AHashThatIsNotTheWeightsIsRefused) {
    const Folder folder;
    const SmallState<float> state(test::small_model());
    CheckpointHeader header = test::small_header(4);
    header.weight_hash = weight_hash(std::span<const float>(state.weights), state.layout) + 1;
    save_checkpoint<float>(*make_single_communicator(), folder.path("run"), header, state.layout, state.model,
                           state.const_view(), 0);
    const std::string fault =
        test::fault_text([&] { rewrite_checkpoint(folder.path("run"), folder.path("out"), 2, Kept::everything); });
    EXPECT_NE(fault.find("the weights have the hash"), std::string::npos) << fault;
    EXPECT_EQ(list_directory(folder.path()), std::vector<std::string>{"run"});
}

// A killed process leaves its temporary folder; the next to the same name takes it away, and nobody else's.
TEST(CheckpointRewrite, WhatADeadProcessLeftGoes) {
    const Folder folder;
    const std::string source = test::save_small<float>(folder.path("run"), 4, 1);
    const pid_t child = ::fork();
    if (child == 0) {
        const Disk disk;
        const OutputFolder left(disk, folder.path("out"));
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    make_directories(folder.path("out.tmp-elsewhere-1-00000000"));
    ASSERT_EQ(list_directory(folder.path()).size(), 3u);
    rewrite_checkpoint(source, folder.path("out"), 1, Kept::everything);
    EXPECT_EQ(list_directory(folder.path()), (std::vector<std::string>{"out", "out.tmp-elsewhere-1-00000000", "run"}));
}

}  // namespace
}  // namespace ogrom
