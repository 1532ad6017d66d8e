#include "src/io/hdf5.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/base/file.h"
#include "src/io/durable.h"
#include "src/io/hdf5_image.h"
#include "src/io/io_thread.h"
#include "src/io/provenance.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;

TEST(Hdf5, AFaultNamesFileItemAndHdf5sReason) {
    const Folder folder;
    const std::string path = folder.path("no.h5");
    const std::string text = test::fault_text([&] { on_io_thread([&] { return h5::open_read(path).get(); }); });
    EXPECT_NE(text.find(path), std::string::npos) << text;
    EXPECT_NE(text.find("No such file or directory"), std::string::npos) << text;
    write_file_atomic(folder.path("text.h5"), "this is no HDF5 file");
    EXPECT_NE(test::fault_text([&] { on_io_thread([&] { h5::open_read(folder.path("text.h5")); }); }).find("signature"),
              std::string::npos);
}

// Shared file systems without locks must work by default (B22): the library never asks for one.
TEST(Hdf5, FileLockingIsOffUnlessTheUserSetIt) {
    on_io_thread([] { h5::prepare(); });
    ASSERT_NE(std::getenv("HDF5_USE_FILE_LOCKING"), nullptr);
    EXPECT_STREQ(std::getenv("HDF5_USE_FILE_LOCKING"), "FALSE");
    unsigned plugins = 1;
    on_io_thread([&] { H5PLget_loading_state(&plugins); });
    EXPECT_EQ(plugins, 0u);
}

TEST(Hdf5Image, ReservedDataAndMetadataMakeAnOrdinaryFile) {
    const Folder folder;
    const std::string path = folder.path("image.h5");
    const i64 count = 300'001;
    i64 offset = 0;
    on_io_thread([&] {
        h5::Image image;
        image.create(path);
        h5::put(image.file(), "text", std::string("ünï"), path);
        h5::put(image.file(), "big", u64{0xffffffffffffffffu}, path);
        h5::put_text(image.file(), "long", std::string(200'000, 'x'), path);
        offset = image.reserve(image.file(), "data", Dtype::fp64, count);
        image.close();
        std::string bytes(static_cast<std::size_t>(image.size()), '\0');
        image.fetch(0, bytes.data(), bytes.size());
        for (i64 i = 0; i < count; ++i) {
            const double value = static_cast<double>(i) + 0.5;
            std::memcpy(bytes.data() + offset + 8 * i, &value, 8);
        }
        write_file_atomic(path, bytes);
    });
    EXPECT_EQ(offset % 4096, 0);
    on_io_thread([&] {
        const h5::File file = h5::open_read(path);
        EXPECT_EQ(h5::get_string(file.get(), "text", path), "ünï");
        EXPECT_EQ(h5::get_u64(file.get(), "big", path), 0xffffffffffffffffu);
        EXPECT_EQ(h5::get_text(file.get(), "long", path), std::string(200'000, 'x'));
        std::vector<double> values(static_cast<std::size_t>(count), -1);
        const h5::Dataset dataset = h5::open_dataset(file.get(), "/data", path);
        ASSERT_GE(H5Dread(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
        i64 wrong = 0;
        for (i64 i = 0; i < count; ++i) {
            wrong += values[static_cast<std::size_t>(i)] == static_cast<double>(i) + 0.5 ? 0 : 1;
        }
        EXPECT_EQ(wrong, 0);
    });
}

TEST(Hdf5Image, AnAttributeThatDoesNotFitIsRefused) {
    const std::string text = test::fault_text([] {
        on_io_thread([] {
            h5::Image image;
            image.create("x.h5");
            h5::put(image.file(), "long", std::string(70'000, 'x'), "x.h5");
        });
    });
    EXPECT_NE(text.find("'long' has 70000 bytes"), std::string::npos) << text;
}

TEST(BlockHasher, DoesNotDependOnTheCutIntoCalls) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(manifest_block_bytes + 12345));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    }
    BlockHasher whole, pieces;
    whole.add(bytes);
    const std::span<const std::byte> all(bytes);
    for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t part = std::min<std::size_t>(bytes.size() - at, 7'654'321);
        pieces.add(all.subspan(at, part));
        at += part;
    }
    const std::vector<BlockHash> hashes = whole.finish();
    ASSERT_EQ(hashes.size(), 2u);
    EXPECT_EQ(pieces.finish(), hashes);
}

TEST(IoThread, RunsTasksInOrderOnOneThreadAndPassesFaultsOn) {
    IoThread thread;
    std::vector<int> order;
    std::vector<std::thread::id> ids;
    std::vector<std::future<int>> results;
    for (int i = 0; i < 100; ++i) {
        results.push_back(thread.submit([&, i] {
            order.push_back(i);
            ids.push_back(std::this_thread::get_id());
            return i * i;
        }));
    }
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(results[static_cast<std::size_t>(i)].get(), i * i);
        EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
        EXPECT_EQ(ids[static_cast<std::size_t>(i)], ids[0]);
    }
    EXPECT_NE(ids[0], std::this_thread::get_id());
    auto fault = thread.submit([] { fail(ExitCode::data, "from the task"); });
    EXPECT_THROW(fault.get(), Error);
    EXPECT_EQ(thread.submit([] { return 5; }).get(), 5);
}

TEST(Provenance, HasWhatMadeTheRunAndNoOtherEnvironment) {
    ::setenv("OMP_STACKSIZE_TEST", "16M", 1);
    ::setenv("OGRIM_SECRET", "hidden", 1);
    ProvenanceInput input;
    input.command_line = "ogrom train \"a b.toml\"";
    input.mesh = "pp=1 dp=2 cp=1 ep=1 tp=1";
    input.hosts = {"n1", "n2"};
    input.ranks = 2;
    input.threads = 3;
    input.mpi_library = "Open MPI v4.1.4\n";
    input.seed = 0xfedcba9876543210u;
    input.extra = {{"sgemm_gflops", "123.4"}};
    const auto root = nlohmann::json::parse(provenance_json(input));
    EXPECT_EQ(root.at("format"), 1);
    EXPECT_EQ(root.at("command_line"), input.command_line);
    EXPECT_EQ(root.at("mesh"), input.mesh);
    EXPECT_EQ(root.at("hosts"), nlohmann::json({"n1", "n2"}));
    EXPECT_EQ(root.at("threads_per_rank"), 3);
    EXPECT_EQ(root.at("seed").get<u64>(), input.seed);
    EXPECT_EQ(root.at("libraries").at("MPI"), "Open MPI v4.1.4");
    EXPECT_NE(root.at("libraries").at("HDF5").get<std::string>().find("1."), std::string::npos);
    EXPECT_FALSE(root.at("program").at("git").get<std::string>().empty());
    EXPECT_FALSE(root.at("machine").at("cpu").get<std::string>().empty());
    EXPECT_GT(root.at("machine").at("memory_bytes").get<i64>(), 0);
    EXPECT_EQ(root.at("environment").at("OMP_STACKSIZE_TEST"), "16M");
    EXPECT_FALSE(root.at("environment").contains("OGRIM_SECRET"));
    EXPECT_EQ(root.at("extra").at("sgemm_gflops"), "123.4");
}

}  // namespace
}  // namespace ogrom
