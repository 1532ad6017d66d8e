#include <filesystem>
#include <gtest/gtest.h>

#include "src/base/file.h"
#include "src/io/checkpoint_write.h"
#include "src/io/io_thread.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using test::SmallState;

// What a save is said to take is what its files take: the images are the same, so to the byte.
TEST(CheckpointSpace, TheStatedNeedIsTheSize) {
    for (const int writers : {1, 3}) {
        const Folder folder;
        const std::string step = test::save_small<float>(folder.path(), 4, writers);
        const SmallState<float> state(test::small_model());
        Placement placement(state.layout.table());
        std::vector<i64> parts;
        for (int writer = 0; writer < writers; ++writer) {
            const auto groups = state_groups(state.const_view(), writer_range(state.layout.size(), writer, writers));
            const Part part = make_part<float>(state.layout, std::span(groups));
            unpack(pack(part), writer, placement);
            parts.push_back(on_io_thread([&] { return lay_out_part(part, writer).bytes(); }));
            EXPECT_EQ(parts.back(), file_size(join_path(step, part_name(writer))));
        }
        const i64 master = on_io_thread(
            [&] { return lay_out_master(placement, Dtype::fp32, test::small_header(4), test::small_model()).bytes(); });
        EXPECT_EQ(master, file_size(join_path(step, master_name)));
        i64 blocks = 0;
        for (const auto& entry : fs::directory_iterator(step)) {
            blocks += ceil_div(static_cast<i64>(entry.file_size()), 4096) * 4096;
        }
        EXPECT_EQ(checkpoint_bytes(parts, master), blocks) << writers << " writers";
    }
}

TEST(CheckpointSpace, RanksWithoutAPartTakeNothing) {
    const std::vector<i64> parts = {0, 5000, 0};
    const std::vector<i64> alone = {5000};
    EXPECT_EQ(checkpoint_bytes(parts, 1), checkpoint_bytes(alone, 1));
    EXPECT_EQ(checkpoint_bytes(alone, 1), 8192 + 4096 + 4096);
}

TEST(CheckpointSpace, AskingForRoomWritesNothing) {
    const Folder folder;
    test::as_ranks(2, [&](Communicator& dp) {
        const SmallState<float> state(test::small_model());
        const auto groups = state_groups(state.const_view(), writer_range(state.layout.size(), dp.rank(), dp.size()));
        require_room<float>(dp, folder.path(), test::small_header(1), state.layout, state.model, std::span(groups));
    });
    EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace ogrom
