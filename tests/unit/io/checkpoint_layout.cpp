#include "src/io/checkpoint_layout.h"

#include <gtest/gtest.h>

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

TEST(CheckpointLayout, RangesCoverEverythingOnceAndDifferByAtMostOne) {
    for (const i64 total : {i64{0}, i64{1}, i64{7}, i64{1000}, i64{1} << 40, i64{8'999'999'999'999'999'991}}) {
        for (const int writers : {1, 2, 3, 4, 1024}) {
            i64 at = 0;
            for (int writer = 0; writer < writers; ++writer) {
                const FlatRange range = writer_range(total, writer, writers);
                ASSERT_EQ(range.first, at);
                ASSERT_GE(range.count(), total / writers);
                ASSERT_LE(range.count(), total / writers + 1);
                at = range.last;
            }
            ASSERT_EQ(at, total);
        }
    }
}

// Marks every element of [first, last) through the blocks and compares with the flat order.
void expect_blocks(i64 rows, i64 cols, i64 first, i64 last) {
    std::vector<i64> source(static_cast<std::size_t>(rows * cols), -1);
    const std::vector<TensorBlock> blocks = row_blocks(cols, first, last);
    ASSERT_LE(blocks.size(), 3u);
    for (const TensorBlock& block : blocks) {
        i64 from = block.source;
        for (i64 r = 0; r < block.rows; ++r) {
            for (i64 c = 0; c < block.cols; ++c, ++from) {
                i64& place = source[static_cast<std::size_t>((block.row + r) * cols + block.col + c)];
                ASSERT_EQ(place, -1);
                place = from;
            }
        }
    }
    for (i64 e = 0; e < rows * cols; ++e) {
        ASSERT_EQ(source[static_cast<std::size_t>(e)], e >= first && e < last ? e - first : -1);
    }
}

TEST(CheckpointLayout, AtMostThreeBlocksCoverAnyRangeOfATensor) {
    for (const i64 cols : {1, 3, 5}) {
        for (i64 first = 0; first < 4 * cols; ++first) {
            for (i64 last = first; last <= 4 * cols; ++last) {
                expect_blocks(4, cols, first, last);
            }
        }
    }
}

// 200000 x 2700 elements of fp32 are 2.16e9 bytes, and the last element of a table of 2^20 x 2^13 lies beyond 2^32.
TEST(CheckpointLayout, IndicesPassTwoToThe31) {
    const i64 cols = i64{1} << 13, count = cols << 20;
    const std::vector<TensorBlock> blocks = row_blocks(cols, 5, count - 7);
    ASSERT_EQ(blocks.size(), 3u);
    EXPECT_EQ(blocks[2].row, (i64{1} << 20) - 1);
    EXPECT_EQ(blocks[2].cols, cols - 7);
    EXPECT_EQ(blocks[2].source, count - cols - 5);
    const std::vector<LogicalTensor> tensors = {{"a", 0, {200000, 2700}, 0, 540000000, 0, 540000000},
                                                {"b", 1, {1 << 20, 1 << 13}, 540000000, count, 540000000, count}};
    const std::vector<Overlap> parts = overlaps(tensors, writer_range(logical_count(tensors), 1, 2));
    ASSERT_EQ(parts.size(), 1u);
    EXPECT_EQ(parts[0].tensor, 1);
    EXPECT_EQ(parts[0].last, count);
    EXPECT_EQ(parts[0].first, (540000000 + count) / 2 - 540000000);
}

TEST(CheckpointLayout, PaddingAndNothingElseIsLeftOut) {
    const test::SmallState<float> state(test::small_model());
    const std::vector<LogicalTensor> tensors = logical_tensors(state.layout);
    EXPECT_EQ(logical_count(tensors), state.table.count());
    EXPECT_EQ(state.layout.size() - logical_count(tensors), (64 - 37) * 10);
    for (int writers : {1, 3, 4}) {
        i64 seen = 0;
        for (int writer = 0; writer < writers; ++writer) {
            const FlatRange range = writer_range(logical_count(tensors), writer, writers);
            i64 at = 0;
            for (const Overlap& part : overlaps(tensors, range)) {
                EXPECT_EQ(part.source, at);
                EXPECT_EQ(tensors[static_cast<std::size_t>(part.tensor)].first + part.first, range.first + at);
                at += part.last - part.first;
            }
            EXPECT_EQ(at, range.count());
            seen += at;
        }
        EXPECT_EQ(seen, logical_count(tensors));
    }
}

}  // namespace
}  // namespace ogrom
