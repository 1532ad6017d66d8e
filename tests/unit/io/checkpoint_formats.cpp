// Files of a newer version of the program: refused by number, never taken for damage; and manifests that are large or
// name a file twice.
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <unistd.h>

#include "src/base/file.h"
#include "src/io/checkpoint_header.h"
#include "src/io/checkpoint_load.h"
#include "src/io/checkpoint_reader.h"
#include "src/io/describe.h"
#include "src/io/manifest.h"
#include "src/io/replay_trace.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::fault_text;
using test::Folder;

void expect_in(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

void number_manifest(const std::string& step, int format) {
    const std::string path = step + "/manifest.json";
    std::string text = read_file(path, 1 << 20);
    const std::string now = "\"format\": 1";
    text.replace(text.find(now), now.size(), "\"format\": " + std::to_string(format) + ",\n \"newer_key\": []");
    write_file_atomic(path, text);
}
void number_master(const std::string& step, i64 format) {
    test::edit_master(step, [&](hid_t file) {
        H5Adelete(file, "format");
        h5::put(file, "format", format, "edit");
    });
}

std::string load_fault(const std::string& step) {
    return fault_text([&] {
        test::SmallState<float> state(test::small_model());
        std::vector<std::string> skipped;
        load_checkpoint<float>(*make_single_communicator(), step, state.layout, state.view(), true, skipped);
    });
}

TEST(CheckpointFormat, ANewerOneIsRefusedByItsNumber) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 4, 1);
    number_master(step, 2);
    const std::string master = "checkpoint.h5: format 2 is not known; this program reads format 1";
    expect_in(load_fault(step), master);
    expect_in(fault_text([&] { (void)read_header(step); }), master);
    expect_in(fault_text([&] { const CheckpointReader reader(step, Kept::everything); }), master);
    EXPECT_EQ(newer_format(step), std::nullopt);  // the manifest says 1: who is right nobody knows
    number_manifest(step, 2);
    const std::string manifest = "manifest.json: format 2 is not known; this program reads format 1";
    expect_in(load_fault(step), manifest);
    expect_in(fault_text([&] { (void)read_header(step); }), manifest);
    expect_in(fault_text([&] { verify_checkpoint(step); }), manifest);
    expect_in(damage_of(*make_single_communicator(), step), manifest);
    EXPECT_EQ(newer_format(step), 2);
}

TEST(CheckpointFormat, ADamagedNumberIsDamage) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 4, 1);
    EXPECT_EQ(newer_format(step), std::nullopt);
    number_manifest(step, 3);  // '1' with one bit changed; the master says 1
    EXPECT_EQ(newer_format(step), std::nullopt);
    write_file_atomic(step + "/checkpoint.h5", "no HDF5");
    EXPECT_EQ(newer_format(step), std::nullopt);
    write_file_atomic(step + "/manifest.json", "[]");
    EXPECT_EQ(newer_format(step), std::nullopt);
    EXPECT_EQ(newer_format(folder.path("nowhere")), std::nullopt);
}

TEST(CheckpointFormat, ANewerRecordOfStepsIsRefusedByItsNumber) {
    ReplayRecord record{2, 1, 4, {}, {{3, 1, 1, 1, false, 5}}};
    std::string text = to_text(record);
    const std::string now = "\"format\": 1";
    text.replace(text.find(now), now.size(), "\"format\": 7");
    expect_in(fault_text([&] { (void)parse_replay(text, "trace.json"); }),
              "trace.json: format 7 is not known; this program reads format 1");
}

TEST(Manifest, NamesNoFileTwice) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 4, 2);
    Manifest manifest = read_manifest(step);
    manifest.files.push_back(manifest.files.front());
    write_file_atomic(step + "/manifest.json", to_text(manifest));
    expect_in(load_fault(step), "manifest.json: " + manifest.files.front().file + " is listed twice");
}

// JSON takes many times its text in memory: a text that the files beside it cannot need is not read at all.
TEST(Manifest, IsNoLongerThanItsFilesNeed) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 4, 1), path = step + "/manifest.json";
    const std::string text = read_file(path, 1 << 20);
    write_file_atomic(path, text + std::string(2 << 20, ' '));
    expect_in(load_fault(step), "manifest.json: 2097");
    expect_in(load_fault(step), "are accepted here");
    // As long as the files of the folder are said to be: 40 TiB of a sparse part.
    Manifest large = read_manifest([&] {
        write_file_atomic(path, text);
        return step;
    }());
    const i64 blocks = 30'000;
    large.files.front().blocks.assign(static_cast<std::size_t>(blocks), {1, 2});
    large.files.front().bytes = blocks * manifest_block_bytes;
    write_file_atomic(path, to_text(large));
    ASSERT_GT(file_size(path), 1 << 20);
    EXPECT_NE(fault_text([&] { (void)read_manifest(step); }), "");
    if (::truncate((step + "/" + large.files.front().file).c_str(), large.files.front().bytes) == 0) {
        EXPECT_EQ(read_manifest(step).files.front().blocks.size(), static_cast<std::size_t>(blocks));
    }
}

// What a manifest vouches for is read, and only then HDF5 is given the file: it crashes on some bytes.
TEST(CheckpointDamage, IsFoundByTheHashBeforeHdf5SeesTheFile) {
    const Folder folder;
    for (const char* name : {"part-00000.h5", "part-00001.h5", "part-00002.h5", "checkpoint.h5"}) {
        const std::string step = test::save_small<float>(folder.path(), 4, 3);
        {
            std::fstream file(step + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
            file << "no HDF5!";
        }
        const std::string wanted = std::string(name) + ": block 0";
        std::vector<std::string> found(4);
        test::as_ranks(
            4, [&](Communicator& world) { found[static_cast<std::size_t>(world.rank())] = damage_of(world, step); });
        expect_in(found[0], wanted);
        std::vector<std::string> faults;
        test::as_ranks(
            4,
            [&](Communicator& world) {
                test::SmallState<float> state(test::small_model());
                std::vector<std::string> skipped;
                load_checkpoint<float>(world, step, state.layout, state.view(), true, skipped);
            },
            &faults);
        expect_in(faults[3], wanted);
        if (name == std::string(master_name)) {
            for (const auto& read : std::vector<std::function<void()>>{
                     [&] { (void)read_header(step); }, [&] { (void)read_model(step); },
                     [&] { verify_checkpoint(step); }, [&] { (void)compare_checkpoints(step, step); }}) {
                expect_in(fault_text(read), wanted);
            }
        }
    }
}

}  // namespace
}  // namespace ogrom
