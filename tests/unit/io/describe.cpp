#include "src/io/describe.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>

#include "src/base/file.h"
#include "src/io/hdf5.h"
#include "src/io/io_thread.h"
#include "src/io/manifest.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;
using test::SmallState;

const InspectEntry* find(const std::vector<InspectEntry>& entries, const std::string& path) {
    for (const InspectEntry& entry : entries) {
        if (entry.path == path) {
            return &entry;
        }
    }
    return nullptr;
}

TEST(Describe, TreeHasShapesTypesAndBytesAndHashesOfValues) {
    const Folder folder;
    const std::string one_step = test::save_small<double>(folder.path("a"), 2, 1), one = one_step + "/checkpoint.h5";
    const std::string cut_step = test::save_small<double>(folder.path("b"), 2, 3), three = cut_step + "/checkpoint.h5";
    std::vector<InspectEntry> entries = describe_file(one), cut = describe_file(three);
    const InspectEntry* entry = find(entries, "/moment1/embedding.token.weight");
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->type, "fp64");
    EXPECT_EQ(entry->shape, (std::vector<i64>{37, 10}));  // padding is not stored
    EXPECT_EQ(entry->bytes, 37 * 10 * 8);
    ASSERT_NE(find(entries, "/weights"), nullptr);
    EXPECT_EQ(find(entries, "/weights")->kind, "group");
    hash_tensors(one, entries, 1 << 20, read_manifest(one_step));
    hash_tensors(three, cut, 1 << 20, read_manifest(cut_step));
    for (const InspectEntry& tensor : entries) {
        if (tensor.path.starts_with("/weights/")) {
            EXPECT_EQ(tensor.hash.size(), 32u);
            EXPECT_EQ(tensor.hash, find(cut, tensor.path)->hash) << tensor.path;  // the cut over writers does not show
        }
    }
    EXPECT_NE(find(entries, "/moment1/final_norm.bias")->hash, find(entries, "/moment2/final_norm.bias")->hash);
}

TEST(Describe, LinksAreNamedAndNotFollowed) {
    const Folder folder;
    const std::string path = folder.path("links.h5");
    on_io_thread([&] {
        const h5::File file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
        H5Lcreate_external("/etc/other.h5", "/x", file.get(), "away", H5P_DEFAULT, H5P_DEFAULT);
        H5Lcreate_soft("/nowhere", file.get(), "soft", H5P_DEFAULT, H5P_DEFAULT);
    });
    const std::vector<InspectEntry> entries = describe_file(path);
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(entries[0].kind, "link");
    EXPECT_EQ(entries[1].kind, "link");
}

// A file of a few KiB may claim any extent: nothing is allocated for it.
TEST(Describe, ExtentsBeyondTheFileAreRefusedBeforeReading) {
    const Folder folder;
    const std::string path = folder.path("huge.h5");
    on_io_thread([&] {
        const h5::File file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
        const hsize_t extent = hsize_t{1} << 45;
        const h5::Space space(H5Screate_simple(1, &extent, nullptr));
        const h5::Dataset made(
            H5Dcreate2(file.get(), "huge", H5T_IEEE_F32LE, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    });
    std::vector<InspectEntry> entries = describe_file(path);
    EXPECT_EQ(entries.at(0).bytes, i64{1} << 47);
    const std::string text = test::fault_text([&] { hash_tensors(path, entries, file_size(path), {}); });
    EXPECT_NE(text.find("/huge claims 140737488355328 bytes"), std::string::npos) << text;
}

// A moment has no hash in the header, and a comparison reads parts that no load has looked at.
TEST(Describe, NothingIsReadFromOutsideTheFolder) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 2, 1), master = step + "/checkpoint.h5";
    const std::string other = test::save_small<float>(folder.path("other"), 2, 1);
    const hsize_t extent = 10;
    test::edit_master(step, [&](hid_t file) {
        H5Ldelete(file, "/moment1/final_norm.bias", H5P_DEFAULT);
        const h5::Space space(H5Screate_simple(1, &extent, nullptr));
        const h5::Properties creation(H5Pcreate(H5P_DATASET_CREATE));
        H5Pset_virtual(creation.get(), space.get(), "../other.h5", "/x", space.get());
        const h5::Dataset made(H5Dcreate2(file, "/moment1/final_norm.bias", H5T_IEEE_F32LE, space.get(), H5P_DEFAULT,
                                          creation.get(), H5P_DEFAULT));
    });
    std::vector<InspectEntry> entries = describe_file(master);
    std::string text = test::fault_text([&] { hash_tensors(master, entries, 1 << 20, read_manifest(step)); });
    EXPECT_NE(text.find("/moment1/final_norm.bias reads from '../other.h5'"), std::string::npos) << text;
    text = test::fault_text([&] { hash_tensors(master, entries, 1 << 20, {}); });
    EXPECT_NE(text.find("which is not a part"), std::string::npos) << text;
    on_io_thread([&] {
        const h5::File part(H5Fopen((other + "/part-00000.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        H5Ldelete(part.get(), "/moment2", H5P_DEFAULT);
        const h5::Space space(H5Screate_simple(1, &extent, nullptr));
        const h5::Properties creation(H5Pcreate(H5P_DATASET_CREATE));
        H5Pset_external(creation.get(), "/etc/hostname", 0, 40);
        const h5::Dataset made(
            H5Dcreate2(part.get(), "/moment2", H5T_IEEE_F32LE, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT));
    });
    text = test::fault_text([&] { (void)compare_checkpoints(other, other); });
    EXPECT_NE(text.find("part-00000.h5: /moment2 does not hold its own data"), std::string::npos) << text;
}

TEST(Describe, DifferencesOfTwoCheckpointsByTensor) {
    const Folder folder;
    const std::string first = test::save_small<float>(folder.path("a"), 2, 1);
    const std::string same = test::save_small<float>(folder.path("b"), 2, 3);
    for (const Difference& difference : compare_checkpoints(first, same)) {
        EXPECT_TRUE(difference.note.empty() && difference.unequal == 0) << difference.path << difference.note;
    }
    SmallState<float> state(test::small_model());
    state.moment1[static_cast<std::size_t>(state.layout.tensor("final_norm.bias").offset + 3)] += 2;
    state.moment2[static_cast<std::size_t>(state.layout.tensor("final_norm.bias").offset)] = NAN;
    CheckpointHeader header = test::small_header(2);
    header.weight_hash = weight_hash(std::span<const float>(state.weights), state.layout);
    save_checkpoint<float>(*make_single_communicator(), folder.path("c"), header, state.layout, state.model,
                           state.const_view(), 0);
    const std::string changed = folder.path("c/step-00000002");
    i64 different = 0;
    for (const Difference& difference : compare_checkpoints(first, changed)) {
        different += difference.unequal;
        if (difference.path == "/moment1/final_norm.bias") {
            EXPECT_EQ(difference.max_difference, 2);
        } else if (difference.path == "/moment2/final_norm.bias") {
            EXPECT_TRUE(std::isnan(difference.max_difference));
        }
    }
    EXPECT_EQ(different, 2);
    verify_checkpoint(first);
    verify_checkpoint(changed);
}

TEST(Describe, VerifySeesAFlippedByte) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 2, 2);
    verify_checkpoint(step);
    {
        std::fstream file(step + "/part-00001.h5", std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(5000);
        file.put('\x7f');
    }
    const std::string text = test::fault_text([&] { verify_checkpoint(step); });
    EXPECT_NE(text.find("part-00001.h5"), std::string::npos) << text;
}

}  // namespace
}  // namespace ogrom
