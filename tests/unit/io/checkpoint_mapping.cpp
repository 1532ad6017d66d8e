// Values taken straight from the parts are those that HDF5 gives, whatever layout wrote them and whatever rectangle is
// wanted; what is not of the form that is written here is left to HDF5.
#include "src/io/checkpoint_mapping.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "src/base/file.h"
#include "src/io/checkpoint_load.h"
#include "src/io/io_thread.h"

#include "tests/unit/io/layouts.h"
#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;
using test::MeshCase;

constexpr double poison = -98765;

TensorPiece any_rectangle(std::mt19937& random, const TensorExtent& extent) {
    const auto below = [&](i64 n) { return static_cast<i64>(random() % static_cast<u64>(n)); };
    TensorPiece piece;
    piece.row = below(extent.rows);
    piece.col = below(extent.cols);
    piece.rows = 1 + below(extent.rows - piece.row);
    piece.cols = 1 + below(extent.cols - piece.col);
    return piece;
}

void expect_values(const std::string& step, const Parameter& tensor, const TensorPiece& piece) {
    std::vector<double> got(static_cast<std::size_t>(piece.count() + 2), poison);
    const std::string master = join_path(step, master_name), item = "/weights/" + tensor.name;
    on_io_thread([&] {
        const h5::File file = h5::open_read(master);
        const h5::Dataset dataset = h5::open_dataset(file.get(), item, master);
        EXPECT_TRUE(
            read_mapped(dataset.get(), master, item, piece, Dtype::fp64, reinterpret_cast<std::byte*>(got.data() + 1)));
    });
    EXPECT_EQ(got.front(), poison);
    EXPECT_EQ(got.back(), poison);
    i64 wrong = 0;
    for (i64 i = 0; i < piece.count(); ++i) {
        const double want = test::value_of(tensor, piece.row + i / piece.cols, piece.col + i % piece.cols);
        wrong += got[static_cast<std::size_t>(i + 1)] == want ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0) << tensor.name << " rows " << piece.rows << " from " << piece.row << ", columns " << piece.cols
                        << " from " << piece.col;
}

TEST(CheckpointMapping, AnyRectangleOfAnyLayout) {
    std::mt19937 random(5);
    const ModelConfig model = test::odd_model();
    const ParameterTable table = make_parameters(model, Dtype::fp64);
    for (const MeshCase& mesh : {MeshCase{}, MeshCase{.dp = 5, .zero = 1}, MeshCase{.tp = 4},
                                 MeshCase{.pp = 2, .dp = 3, .tp = 2, .zero = 3}, MeshCase{.pp = 3, .tp = 2}}) {
        const Folder folder;
        const std::string step = test::save_mesh<double>(folder.path(), mesh);
        SCOPED_TRACE(mesh.text());
        for (const Parameter& tensor : table.rows()) {
            const TensorExtent extent = extent_of(tensor);
            if (!tensor.tie.empty()) {
                continue;
            }
            expect_values(step, tensor, {0, 0, 0, extent.rows, extent.cols, 0});
            for (int i = 0; i < 3; ++i) {
                expect_values(step, tensor, any_rectangle(random, extent));
            }
        }
    }
}

// A master of one tensor of 4 x 6 over one part, in the form that saves have but for what is named.
struct Form {
    hid_t part_type = H5T_NATIVE_DOUBLE;
    bool chunked = false, in_master = false, every_second_row = false;
    hsize_t covered_rows = 4;
};

void write_part(const std::string& path, const Form& form) {
    const h5::File file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    const hsize_t extent = 24, chunk = 4;
    const h5::Space space(H5Screate_simple(1, &extent, nullptr));
    const h5::Properties creation(H5Pcreate(H5P_DATASET_CREATE));
    ASSERT_TRUE(!form.chunked || H5Pset_chunk(creation.get(), 1, &chunk) >= 0);
    const h5::Dataset made(
        H5Dcreate2(file.get(), "weights", form.part_type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT));
    std::vector<double> values(extent);
    std::iota(values.begin(), values.end(), 0.5);
    ASSERT_GE(H5Dwrite(made.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
}

void write_master(const std::string& path, const Form& form) {
    const h5::File file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    const hsize_t extents[] = {4, 6}, flat = 24, first[] = {0, 0};
    const hsize_t step[] = {form.every_second_row ? hsize_t{2} : hsize_t{1}, 1},
                  count[] = {form.covered_rows / step[0], 6};
    const hsize_t taken = count[0] * count[1];
    const h5::Space whole(H5Screate_simple(2, extents, nullptr)), to(H5Screate_simple(2, extents, nullptr)),
        from(H5Screate_simple(1, &flat, nullptr));
    const h5::Properties creation(H5Pcreate(H5P_DATASET_CREATE));
    if (!form.in_master) {
        ASSERT_GE(H5Sselect_hyperslab(to.get(), H5S_SELECT_SET, first, step, count, nullptr), 0);
        ASSERT_GE(H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, first, nullptr, &taken, nullptr), 0);
        ASSERT_GE(H5Pset_virtual(creation.get(), to.get(), "part-00000.h5", "/weights", from.get()), 0);
    }
    const h5::Dataset made(
        H5Dcreate2(file.get(), "tensor", H5T_NATIVE_DOUBLE, whole.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT));
    ASSERT_NE(made.get(), H5I_INVALID_HID);
}

bool read_straight(const Form& form, Dtype type = Dtype::fp64) {
    const Folder folder;
    const std::string master = folder.path(master_name);
    return on_io_thread([&] {
        write_part(folder.path(part_name(0)), form);
        write_master(master, form);
        std::vector<double> got(24, poison);
        const h5::File file = h5::open_read(master);
        const h5::Dataset dataset = h5::open_dataset(file.get(), "/tensor", master);
        const bool straight = read_mapped(dataset.get(), master, "/tensor", {0, 0, 0, 4, 6, 0}, type,
                                          reinterpret_cast<std::byte*>(got.data()));
        EXPECT_TRUE(!straight || (got.front() == 0.5 && got.back() == 23.5));
        return straight;
    });
}

TEST(CheckpointMapping, OnlyTheFormOfSavesIsReadStraight) {
    EXPECT_TRUE(read_straight({}));
    EXPECT_FALSE(read_straight({}, Dtype::fp32)) << "HDF5 turns values into another type";
    EXPECT_FALSE(read_straight({.part_type = H5T_NATIVE_FLOAT}));
    EXPECT_FALSE(read_straight({.part_type = H5T_IEEE_F64BE}));
    EXPECT_FALSE(read_straight({.chunked = true}));
    EXPECT_FALSE(read_straight({.in_master = true}));
    EXPECT_FALSE(read_straight({.every_second_row = true}));
    EXPECT_FALSE(read_straight({.covered_rows = 3})) << "the last row stands nowhere";
}

// What HDF5 would fill with NaN is an error, whichever way the values are wanted; other types are turned.
TEST(CheckpointMapping, APartThatIsGoneIsNoNan) {
    const Folder folder;
    const std::string master = folder.path(master_name), part = folder.path(part_name(0));
    const auto read = [&]<class Value>(Value, Dtype type) {
        std::vector<Value> got(24);
        const h5::File file = h5::open_read(master);
        const h5::Dataset dataset = h5::open_dataset(file.get(), "/tensor", master);
        read_virtual(dataset.get(), master, "/tensor", {0, 0, 0, 4, 6, 0}, type,
                     reinterpret_cast<std::byte*>(got.data()));
        return got;
    };
    on_io_thread([&] {
        write_part(part, {});
        write_master(master, {});
        EXPECT_EQ(read(0.0, Dtype::fp64).back(), 23.5);
        const std::vector<float> turned = read(0.0F, Dtype::fp32);
        EXPECT_TRUE(turned.front() == 0.5F && turned.back() == 23.5F);
        std::filesystem::remove(part);
        for (const Dtype type : {Dtype::fp64, Dtype::fp32}) {
            const std::string fault = test::fault_text([&] { (void)read(0.0, type); });
            EXPECT_NE(fault.find("part-00000.h5"), std::string::npos) << fault;
        }
    });
}

}  // namespace
}  // namespace ogrom
