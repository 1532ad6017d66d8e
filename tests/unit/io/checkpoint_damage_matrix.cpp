// Every file of a checkpoint, damaged in every way: a load refuses it and names the file, the choice of a resume passes
// over it for the one before, nothing crashes or waits.
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <sys/stat.h>

#include "src/base/file.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/hdf5.h"
#include "src/io/manifest.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using test::SmallState;

std::string load_fault(const std::string& step) {
    return test::fault_text([&] {
        SmallState<float> state(test::small_model());
        std::vector<std::string> skipped;
        load_checkpoint<float>(*make_single_communicator(), step, state.layout, state.view(), true, skipped);
    });
}

// What a resume takes: the newest that is complete and has the bytes of its manifest.
std::string choice(const std::string& directory) {
    std::vector<std::string> passed;
    for (const std::string& step : complete_checkpoints(directory, passed)) {
        if (damage_of(*make_single_communicator(), step).empty()) {
            return fs::path(step).filename();
        }
    }
    return "none";
}

struct Damage {
    const char* name;
    std::function<void(const std::string& path)> work;
};

void replace(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

const std::vector<Damage>& damages() {
    static const std::vector<Damage> list = {
        {"half", [](const std::string& path) { fs::resize_file(path, fs::file_size(path) / 2); }},
        {"one byte less", [](const std::string& path) { fs::resize_file(path, fs::file_size(path) - 1); }},
        {"one byte more", [](const std::string& path) { fs::resize_file(path, fs::file_size(path) + 1); }},
        {"one byte", [](const std::string& path) { fs::resize_file(path, 1); }},
        {"empty", [](const std::string& path) { fs::resize_file(path, 0); }},
        {"removed", [](const std::string& path) { fs::remove(path); }},
        {"a folder",
         [](const std::string& path) {
             fs::remove(path);
             fs::create_directory(path);
         }},
        {"a link to nowhere",
         [](const std::string& path) {
             fs::remove(path);
             fs::create_symlink("nowhere", path);
         }},
        {"a pipe",
         [](const std::string& path) {
             fs::remove(path);
             ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
         }},
        {"text", [](const std::string& path) { replace(path, "this is no checkpoint\n"); }},
        {"zeros of its size",
         [](const std::string& path) { replace(path, std::string(static_cast<std::size_t>(fs::file_size(path)), 0)); }},
        {"another HDF5 file",
         [](const std::string& path) {
             fs::remove(path);
             const h5::File file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
             ASSERT_TRUE(file);
         }},
    };
    return list;
}

class DamageMatrix : public testing::TestWithParam<const char*> {
protected:
    // Steps 2 and 4 by two writers; step 4 is then damaged.
    void SetUp() override {
        test::save_small<float>(folder_.path(), 2, 2);
        test::save_small<float>(folder_.path(), 4, 2);
        ASSERT_EQ(choice(folder_.path()), "step-00000004");
        fs::copy(folder_.path("step-00000004"), kept_.path("step"));
    }
    void restore() {
        fs::remove_all(folder_.path("step-00000004"));
        fs::copy(kept_.path("step"), folder_.path("step-00000004"));
    }
    // `named`: what the message must hold beside the folder.
    void expect_found(const std::string& what, const std::string& named) {
        SCOPED_TRACE(what);
        const std::string step = folder_.path("step-00000004"), text = load_fault(step);
        EXPECT_NE(text.find(step), std::string::npos) << "'" << text << "'";
        EXPECT_NE(text.find(named), std::string::npos) << "'" << text << "'";
        EXPECT_EQ(choice(folder_.path()), "step-00000002");
    }
    Folder folder_, kept_;
};

TEST_P(DamageMatrix, IsFoundAndTheOneBeforeIsTaken) {
    for (const Damage& damage : damages()) {
        damage.work(folder_.path("step-00000004/") + GetParam());
        expect_found(damage.name, GetParam());
        restore();
    }
    EXPECT_EQ(choice(folder_.path()), "step-00000004");
}

TEST_P(DamageMatrix, AFlippedByteAnywhereIsFound) {
    const unsigned seed = std::random_device()();
    std::mt19937_64 random(seed);
    const std::string path = folder_.path("step-00000004/") + GetParam();
    // A digit of the manifest that changed into another one is a disagreement with the file that it tells of: which of
    // the two was damaged nobody can say.
    const std::string named = GetParam() == std::string(manifest_name) ? "" : GetParam();
    for (int i = 0; i < 50; ++i) {
        const auto place = static_cast<std::streamoff>(random() % fs::file_size(path));
        const auto bit = static_cast<char>(1 << (random() % 8));
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(place);
        const auto byte = static_cast<char>(file.get());
        const auto put = [&](char value) {
            file.seekp(place);
            file.put(value);
            file.flush();
            ASSERT_TRUE(file.good());
        };
        put(static_cast<char>(byte ^ bit));
        expect_found(fmt::format("seed {}, byte {}, bit {:#x}", seed, place, bit), named);
        put(byte);
    }
    EXPECT_EQ(choice(folder_.path()), "step-00000004");
}

INSTANTIATE_TEST_SUITE_P(Files, DamageMatrix,
                         testing::Values("part-00000.h5", "part-00001.h5", "checkpoint.h5", "manifest.json"),
                         [](const auto& file) { return fmt::format("file{}", file.index); });

// Folders are what a resume goes by: whatever `latest` says, the newest intact one is taken.
TEST(DamageOfLatest, ChangesNothing) {
    const Folder folder;
    test::save_small<float>(folder.path(), 2, 2);
    test::save_small<float>(folder.path(), 4, 2);
    const std::string latest = folder.path("latest");
    for (const char* text : {"", "step-00000009\n", "../../etc/passwd\n", "step-00000002", "\xff\xfe"}) {
        replace(latest, text);
        EXPECT_EQ(choice(folder.path()), "step-00000004") << text;
    }
    for (const Damage& damage : damages()) {
        damage.work(latest);
        EXPECT_EQ(choice(folder.path()), "step-00000004") << damage.name;
        fs::remove_all(latest);
        replace(latest, "step-00000004\n");
    }
    fs::remove(latest);
    fs::create_symlink("step-00000002", latest);
    EXPECT_EQ(choice(folder.path()), "step-00000004");
    // The next save replaces it, whatever it was.
    test::save_small<float>(folder.path(), 6, 1);
    EXPECT_EQ(read_file(latest, 100), "step-00000006\n");
    EXPECT_FALSE(fs::is_symlink(latest));
}

}  // namespace
}  // namespace ogrom
