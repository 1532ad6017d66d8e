#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "kernels/common/fault.h"

#include "src/base/file.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/hdf5.h"
#include "src/io/manifest.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

namespace fs = std::filesystem;
using test::edit_master;
using test::Folder;
using test::SmallState;

std::string load_fault(const std::string& path, const ModelConfig& model = test::small_model()) {
    return test::fault_text([&] {
        SmallState<float> state(model);
        std::vector<std::string> skipped;
        load_checkpoint<float>(*make_single_communicator(), path, state.layout, state.view(), true, skipped);
    });
}

void flip(const std::string& path, i64 offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const char byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(offset);
    file.put(byte);
    ASSERT_TRUE(file.good());
}

void expect_in(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

void put_dataset(hid_t file, const std::string& path, std::vector<hsize_t> shape, Dtype type) {
    const h5::Space space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
    const h5::Dataset made(
        H5Dcreate2(file, path.c_str(), h5::file_type(type), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    ASSERT_TRUE(made);
}

TEST(CheckpointDamage, FindLatestPassesOverWhatIsIncompleteWithFileAndReason) {
    const Folder folder;
    test::save_small<float>(folder.path(), 2, 2);
    const auto expect_passed = [&](const std::string& reason, const std::function<void(const std::string&)>& damage) {
        const std::string step = test::save_small<float>(folder.path(), 4, 2);
        damage(step);
        std::vector<std::string> passed;
        const auto found = find_latest(folder.path(), passed);
        ASSERT_TRUE(found.has_value());
        EXPECT_TRUE(found->ends_with("step-00000002")) << *found;
        ASSERT_EQ(passed.size(), 1u);
        expect_in(passed[0], "step-00000004");
        expect_in(passed[0], reason);
        expect_in(load_fault(step), reason);  // named explicitly: refused with the same reason
    };
    expect_passed("part-00001.h5: is missing", [](const auto& step) { fs::remove(step + "/part-00001.h5"); });
    expect_passed("part-00000.h5: has 0 bytes", [](const auto& step) { fs::resize_file(step + "/part-00000.h5", 0); });
    expect_passed("checkpoint.h5: is missing", [](const auto& step) { fs::remove(step + "/checkpoint.h5"); });
    expect_passed("manifest.json: is missing", [](const auto& step) { fs::remove(step + "/manifest.json"); });
    expect_passed("manifest.json", [](const auto& step) { fs::resize_file(step + "/manifest.json", 0); });
    expect_passed("part-00000.h5: has", [](const auto& step) {
        fs::resize_file(step + "/part-00000.h5", fs::file_size(step + "/part-00000.h5") - 1);
    });
    std::vector<std::string> passed;
    EXPECT_EQ(find_latest(folder.path("nothing"), passed), std::nullopt);
}

TEST(CheckpointDamage, AFlippedByteIsNamedByFileAndBlock) {
    const Folder folder;
    for (const char* name : {"part-00001.h5", "checkpoint.h5"}) {
        const std::string step = test::save_small<float>(folder.path(), 4, 2);
        const std::string path = step + "/" + name;
        flip(path, static_cast<i64>(fs::file_size(path)) - 9);
        const std::string text = load_fault(step);
        expect_in(text, path);
        expect_in(text, "block 0");
    }
    // Data of the moments has no second witness (the weight hash covers weights): only the manifest sees it.
    EXPECT_EQ(load_fault(test::save_small<float>(folder.path(), 4, 2)), "");
}

// Each rank hashes its share: a byte in any file is found whichever rank has its block, and all ranks hear of it.
TEST(CheckpointDamage, RanksShareTheHashesAndAgree) {
    const Folder folder;
    for (const char* name : {"part-00000.h5", "part-00001.h5", "checkpoint.h5"}) {
        const std::string step = test::save_small<float>(folder.path(), 4, 2);
        std::vector<std::string> found(3, "?");
        const auto look = [&](Communicator& world) {
            found[static_cast<std::size_t>(world.rank())] = damage_of(world, step);
        };
        test::as_ranks(3, look);
        EXPECT_EQ(found, std::vector<std::string>(3));
        flip(step + "/" + name, static_cast<i64>(fs::file_size(step + "/" + name)) - 9);
        test::as_ranks(3, look);
        expect_in(found[0], step + "/" + name + ": block 0");
        EXPECT_EQ(found, std::vector<std::string>(3, found[0]));
    }
}

TEST(CheckpointDamage, AllCompleteOnesAreListedNewestFirst) {
    const Folder folder;
    const std::string two = test::save_small<float>(folder.path(), 2, 1);
    const std::string four = test::save_small<float>(folder.path(), 4, 1);
    const std::string six = test::save_small<float>(folder.path(), 6, 1);
    fs::remove(four + "/checkpoint.h5");
    std::vector<std::string> passed;
    EXPECT_EQ(complete_checkpoints(folder.path(), passed), (std::vector<std::string>{six, two}));
    ASSERT_EQ(passed.size(), 1u);
    expect_in(passed[0], "step-00000004");
}

TEST(CheckpointDamage, AFlippedByteOfTheHeaderIsNoChangedSetting) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 4, 2);
    EXPECT_EQ(damage_of(*make_single_communicator(), step), "");
    flip(step + "/checkpoint.h5", 2000);
    expect_in(damage_of(*make_single_communicator(), step), "checkpoint.h5: block 0");
}

TEST(CheckpointDamage, SharesOfTheHashingAreTheWholeOnce) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 4, 5);
    const Manifest manifest = read_manifest(step);
    i64 whole = 0;
    for (const FileRecord& record : manifest.files) {
        whole += record.bytes;
    }
    for (int shares = 1; shares <= 9; ++shares) {  // of 6 files of one block each
        i64 bytes = 0;
        for (int share = 0; share < shares; ++share) {
            bytes += verify_manifest(step, manifest, share, shares);
        }
        EXPECT_EQ(bytes, whole) << shares << " shares";
    }
    flip(step + "/part-00003.h5", 2000);
    int seen = 0;
    for (int share = 0; share < 4; ++share) {
        seen += test::fault_text([&] { (void)verify_manifest(step, manifest, share, 4); }).empty() ? 0 : 1;
    }
    EXPECT_EQ(seen, 1);
}

TEST(CheckpointDamage, EveryFlippedByteOfTheManifestIsSeen) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 4, 1);
    const std::string path = step + "/manifest.json", text = read_file(path, 1 << 20);
    i64 unseen = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        std::string changed = text;
        changed[at] = static_cast<char>(changed[at] ^ 1);
        bool seen = false;
        try {
            const Manifest manifest = parse_manifest(changed, path);
            verify_manifest(step, manifest, 0, 1);
            seen = manifest.step != 4;  // compared with the header at load
            for (const FileRecord& record : manifest.files) {
                seen = seen || static_cast<i64>(fs::file_size(step + "/" + record.file)) != record.bytes;
            }
        } catch (const Error&) {
            seen = true;
        } catch (const fs::filesystem_error&) {
            seen = true;
        }
        unseen += seen ? 0 : 1;
    }
    EXPECT_EQ(unseen, 0);
    write_file_atomic(path, [&] {
        Manifest manifest = read_manifest(step);
        manifest.step = 5;
        return to_text(manifest);
    }());
    expect_in(load_fault(step), "manifest.json: is of step 5, the folder is named for step 4");
}

TEST(CheckpointDamage, B20WhatDoesNotMatchIsListed) {
    const Folder folder;
    const auto fault_after = [&](const std::function<void(hid_t)>& edit) {
        const std::string step = test::save_small<float>(folder.path(), 4, 2);
        edit_master(step, edit);
        return load_fault(step);
    };
    const std::string renamed = fault_after([](hid_t file) {
        H5Lmove(file, "/weights/final_norm.bias", file, "/weights/final_norm.beta", H5P_DEFAULT, H5P_DEFAULT);
    });
    expect_in(renamed, "missing: /weights/final_norm.bias");
    expect_in(renamed, "unexpected: /weights/final_norm.beta");
    expect_in(fault_after([](hid_t file) { put_dataset(file, "/moment1/extra.weight", {3}, Dtype::fp32); }),
              "unexpected: /moment1/extra.weight");
    expect_in(fault_after([](hid_t file) { H5Ldelete(file, "/moment2/block.0.mlp.up.bias", H5P_DEFAULT); }),
              "missing: /moment2/block.0.mlp.up.bias");
    expect_in(fault_after([](hid_t file) {
                  H5Ldelete(file, "/weights/final_norm.bias", H5P_DEFAULT);
                  put_dataset(file, "/weights/final_norm.bias", {11}, Dtype::fp32);
              }),
              "/weights/final_norm.bias: shape [11] in the checkpoint, [10] in the model");
    expect_in(fault_after([](hid_t file) {
                  H5Ldelete(file, "/weights/final_norm.bias", H5P_DEFAULT);
                  put_dataset(file, "/weights/final_norm.bias", {10}, Dtype::fp64);
              }),
              "/weights/final_norm.bias: type fp64 in the checkpoint, fp32 in the run");
    expect_in(fault_after([](hid_t file) { h5::make_group(file, "moment3", "edited"); }), "unexpected: /moment3");
    const std::string deeper = load_fault(test::save_small<float>(folder.path(), 4, 2), test::small_model(1));
    expect_in(deeper, "unexpected: /weights/block.1.norm1.weight");
    const std::string shallower = load_fault(folder.path("step-00000004"), test::small_model(3));
    expect_in(shallower, "missing: /moment2/block.2.mlp.down.bias");
}

TEST(CheckpointDamage, B20MomentsThatNobodyAskedForAreUnexpectedInTraining) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 4, 1);
    SmallState<float> state(test::small_model());
    std::vector<std::string> skipped;
    const auto single = make_single_communicator();
    expect_in(
        test::fault_text([&] {
            load_checkpoint<float>(*single, step, state.layout, {state.weights, state.moment1, {}}, true, skipped);
        }),
        "unexpected: /moment2");
    // Weights alone (sample): moments stay in the file without complaint.
    load_checkpoint<float>(*single, step, state.layout, {state.weights, {}, {}}, true, skipped);
    EXPECT_TRUE(skipped.empty());
}

TEST(CheckpointDamage, B20NotStrictLoadsWhatMatchesAndSaysWhatWasLeftOut) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 4, 2);
    edit_master(step, [](hid_t file) { H5Ldelete(file, "/weights/final_norm.bias", H5P_DEFAULT); });
    SmallState<float> state(test::small_model());
    state.poison();
    std::vector<std::string> skipped;
    load_checkpoint<float>(*make_single_communicator(), step, state.layout, state.view(), false, skipped);
    EXPECT_EQ(skipped, std::vector<std::string>{"missing: /weights/final_norm.bias"});
    EXPECT_EQ(state.wrong(), 10);  // the one tensor that was left as it was
}

TEST(CheckpointDamage, FilesThatReachOutsideTheirFolderAreRefused) {
    const Folder folder;
    const auto fault_after = [&](const std::function<void(hid_t)>& edit) {
        const std::string step = test::save_small<float>(folder.path(), 4, 1);
        edit_master(step, edit);
        return load_fault(step);
    };
    expect_in(fault_after([](hid_t file) {
                  H5Ldelete(file, "/weights/final_norm.bias", H5P_DEFAULT);
                  H5Lcreate_external("/etc/other.h5", "/x", file, "/weights/final_norm.bias", H5P_DEFAULT, H5P_DEFAULT);
              }),
              "/weights/final_norm.bias is a link to elsewhere");
    for (const char* source : {"../other.h5", "/tmp/other.h5", "part-00007.h5", "checkpoint.h5", "."}) {
        expect_in(fault_after([&](hid_t file) {
                      H5Ldelete(file, "/weights/final_norm.bias", H5P_DEFAULT);
                      const hsize_t extent = 10;
                      const h5::Space space(H5Screate_simple(1, &extent, nullptr));
                      const h5::Properties creation(H5Pcreate(H5P_DATASET_CREATE));
                      H5Pset_virtual(creation.get(), space.get(), source, "/weights", space.get());
                      const h5::Dataset made(H5Dcreate2(file, "/weights/final_norm.bias", H5T_IEEE_F32LE, space.get(),
                                                        H5P_DEFAULT, creation.get(), H5P_DEFAULT));
                  }),
                  std::string("reads from '") + source + "', which is not a part");
    }
    // A group, and raw data kept in a file of its own.
    expect_in(fault_after([](hid_t file) {
                  H5Ldelete(file, "/moment1", H5P_DEFAULT);
                  H5Lcreate_external("/etc/other.h5", "/x", file, "/moment1", H5P_DEFAULT, H5P_DEFAULT);
              }),
              "'moment1' is a link");
    expect_in(fault_after([](hid_t file) {
                  H5Ldelete(file, "/weights/final_norm.bias", H5P_DEFAULT);
                  const hsize_t extent = 10;
                  const h5::Space space(H5Screate_simple(1, &extent, nullptr));
                  const h5::Properties creation(H5Pcreate(H5P_DATASET_CREATE));
                  H5Pset_external(creation.get(), "/etc/hostname", 0, 40);
                  const h5::Dataset made(H5Dcreate2(file, "/weights/final_norm.bias", H5T_IEEE_F32LE, space.get(),
                                                    H5P_DEFAULT, creation.get(), H5P_DEFAULT));
              }),
              "external raw files");
    const std::string step = test::save_small<float>(folder.path(), 4, 1);
    Manifest manifest = read_manifest(step);
    manifest.files.front().file = "../part-00000.h5";
    write_file_atomic(step + "/manifest.json", to_text(manifest));
    expect_in(load_fault(step), "is not a file of a checkpoint");
}

TEST(CheckpointDamage, WeightsThatAreNotTheSavedOnesAreSeenByTheirHash) {
    const Folder folder;
    const SmallState<float> state(test::small_model());
    CheckpointHeader header = test::small_header(4);
    header.weight_hash = weight_hash(std::span<const float>(state.weights), state.layout) + 1;
    save_checkpoint<float>(*make_single_communicator(), folder.path(), header, state.layout, state.model,
                           state.const_view(), 0);
    expect_in(load_fault(folder.path("step-00000004")),
              "step-00000004/checkpoint.h5: the weights that were read have the hash");
}

// One rank's fault is every rank's fault, with the same text.
TEST(CheckpointDamage, EveryRankHearsOfADamageThatOneRankFound) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 4, 3);
    flip(step + "/part-00001.h5", 3000);
    std::vector<std::string> faults;
    test::as_ranks(
        3,
        [&](Communicator& dp) {
            SmallState<float> state(test::small_model());
            std::vector<std::string> skipped;
            load_checkpoint<float>(dp, step, state.layout, state.view(), true, skipped);
        },
        &faults);
    ASSERT_EQ(faults.size(), 3u);
    expect_in(faults[0], "rank 1: ");
    expect_in(faults[0], "part-00001.h5");
    EXPECT_EQ(faults[1], faults[0]);
    EXPECT_EQ(faults[2], faults[0]);
}

}  // namespace
}  // namespace ogrom
