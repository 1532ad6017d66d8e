// Each element of a tensor stands in exactly one place of the parts: a mapping that stands twice and hides one that is
// missing leaves the count of elements right and the values wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/io/checkpoint_load.h"
#include "src/io/checkpoint_reader.h"
#include "src/io/describe.h"
#include "src/io/hdf5.h"
#include "src/io/manifest.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;
using test::SmallState;

struct Box {
    std::vector<hsize_t> start, count, stride{1, 1}, block{1, 1};
};

// `path` anew, with these mappings of its elements to the start of the part.
void map_anew(hid_t file, const std::string& path, const std::vector<hsize_t>& shape, const std::vector<Box>& boxes) {
    const std::string source = path.substr(0, path.find('/', 1));
    H5Ldelete(file, path.c_str(), H5P_DEFAULT);
    const h5::Properties creation(H5Pcreate(H5P_DATASET_CREATE));
    const h5::Space space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
    for (const Box& box : boxes) {
        const h5::Space to(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
        H5Sselect_hyperslab(to.get(), H5S_SELECT_SET, box.start.data(), box.stride.data(), box.count.data(),
                            box.block.data());
        const hsize_t count = static_cast<hsize_t>(H5Sget_select_npoints(to.get())), first = 0;
        const h5::Space from(H5Screate_simple(1, &count, nullptr));
        H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, &first, nullptr, &count, nullptr);  // as a save does
        H5Pset_virtual(creation.get(), to.get(), "part-00000.h5", source.c_str(), from.get());
    }
    const h5::Dataset made(
        H5Dcreate2(file, path.c_str(), H5T_IEEE_F32LE, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT));
    ASSERT_TRUE(made);
}

std::string load_fault(const std::string& step) {
    return test::fault_text([&] {
        SmallState<float> state(test::small_model());
        std::vector<std::string> skipped;
        load_checkpoint<float>(*make_single_communicator(), step, state.layout, state.view(), true, skipped);
    });
}

void expect_in(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

// Every reader of a tensor says so, in the weights and in the moments.
void expect_refused(const std::string& tensor, const std::vector<hsize_t>& shape, const std::vector<Box>& boxes,
                    const std::string& fault) {
    for (const char* group : {"/weights/", "/moment1/", "/moment2/"}) {
        SCOPED_TRACE(group + tensor);
        const Folder folder;
        const std::string step = test::save_small<float>(folder.path(), 4, 1), master = step + "/checkpoint.h5";
        test::edit_master(step, [&](hid_t file) { map_anew(file, group + tensor, shape, boxes); });
        const std::string text = group + tensor + ": " + fault;
        expect_in(load_fault(step), text);
        expect_in(test::fault_text([&] { const CheckpointReader reader(step, Kept::everything); }), text);
        expect_in(test::fault_text([&] { (void)compare_checkpoints(step, step); }), text);
        std::vector<InspectEntry> entries = describe_file(master);
        expect_in(test::fault_text([&] { hash_tensors(master, entries, 1 << 20, read_manifest(step)); }), text);
    }
}

TEST(CheckpointCover, AMappingThatStandsTwiceHidesNone) {
    expect_refused("final_norm.bias", {10}, {{{0}, {5}}, {{0}, {5}}},
                   "rows 0 to 4, columns 0 are held by mapping 0 and by mapping 1");
    expect_refused("final_norm.bias", {10}, {{{0}, {4}}, {{6}, {4}}, {{6}, {2}}},
                   "rows 4 to 5, columns 0 are held by no mapping");
    expect_refused("embedding.position.weight", {13, 10}, {{{0, 0}, {13, 5}}, {{0, 0}, {13, 5}}},
                   "rows 0 to 12, columns 0 to 4 are held by mapping 0 and by mapping 1");
    expect_refused("embedding.position.weight", {13, 10}, {{{0, 0}, {12, 10}}, {{12, 0}, {1, 9}}, {{3, 3}, {1, 1}}},
                   "rows 3, columns 3 are held by mapping 0 and by mapping 2");
    expect_refused("final_norm.bias", {10}, {{{0}, {9}}}, "rows 9, columns 0 are held by no mapping");
}

TEST(CheckpointCover, OnlyRectanglesAreTaken) {
    const std::string fault = "mapping 0 is no rectangle within the tensor";
    expect_refused("final_norm.bias", {10}, {{{0}, {5}, {2}}, {{1}, {5}, {2}}}, fault);  // every second element
    expect_refused("embedding.position.weight", {13, 10}, {{{0, 0}, {2, 10}, {7, 1}}, {{1, 0}, {6, 10}}}, fault);
}

TEST(CheckpointCover, ARectangleMayBeWrittenAsBlocks) {
    const Folder folder;
    const std::string step = test::save_small<float>(folder.path(), 4, 1);
    test::edit_master(step, [&](hid_t file) {
        map_anew(file, "/moment1/final_norm.bias", {10}, {{{0}, {3}, {2}, {2}}, {{6}, {1}, {1}, {4}}});
    });
    EXPECT_EQ(load_fault(step), "");
}

}  // namespace
}  // namespace ogrom
