#include "src/io/checkpoint_layout.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "tests/unit/io/layouts.h"
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
    const std::vector<TensorPiece> blocks = row_blocks(cols, first, last);
    ASSERT_LE(blocks.size(), 3u);
    for (const TensorPiece& block : blocks) {
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

// The last element of a table of 2^20 x 2^13 lies beyond 2^32.
TEST(CheckpointLayout, IndicesPassTwoToThe31) {
    const i64 cols = i64{1} << 13, count = cols << 20;
    const std::vector<TensorPiece> blocks = row_blocks(cols, 5, count - 7);
    ASSERT_EQ(blocks.size(), 3u);
    EXPECT_EQ(blocks[2].row, (i64{1} << 20) - 1);
    EXPECT_EQ(blocks[2].cols, cols - 7);
    EXPECT_EQ(blocks[2].source, count - cols - 5);
}

std::string text_of(const TensorPiece& piece) {
    return "row " + std::to_string(piece.row) + " col " + std::to_string(piece.col) + " rows " +
           std::to_string(piece.rows) + " cols " + std::to_string(piece.cols) + " source " +
           std::to_string(piece.source);
}

// Every element of the range by the layout's own arithmetic (LocalTensor::global_index) against the pieces.
void expect_pieces(const ParameterLayout& layout, FlatRange range, Copies copies) {
    std::vector<std::pair<i64, i64>> wanted(static_cast<std::size_t>(range.count()), {-1, -1});
    auto found = wanted;
    for (const LocalTensor& tensor : layout.tensors()) {
        const bool copy = !tensor.parameter->tie.empty();
        const bool elsewhere = layout.part().rank > 0 && tensor.parameter->tensor_axis < 0;
        for (i64 e = 0; e < tensor.logical && (copies == Copies::all || (!copy && !elsewhere)); ++e) {
            const i64 at = tensor.offset + e - range.first;
            if (at >= 0 && at < range.count()) {
                const i64 id = copy ? 0 : tensor.parameter->id;  // the token table is tensor 0
                wanted[static_cast<std::size_t>(at)] = {id, tensor.global_index(e)};
            }
        }
    }
    std::vector<i64> touched;
    for (const TensorPiece& piece : pieces(layout, range, copies)) {
        touched.push_back(piece.tensor);
        ASSERT_LE(std::count(touched.begin(), touched.end(), piece.tensor), 3) << text_of(piece);
        const i64 whole = extent_of(layout.table()[static_cast<std::size_t>(piece.tensor)]).cols;
        for (i64 i = 0; i < piece.count(); ++i) {
            const i64 index = (piece.row + i / piece.cols) * whole + piece.col + i % piece.cols;
            ASSERT_EQ(found[static_cast<std::size_t>(piece.source + i)].first, -1) << text_of(piece);
            found[static_cast<std::size_t>(piece.source + i)] = {piece.tensor, index};
        }
    }
    ASSERT_EQ(found, wanted) << "[" << range.first << ", " << range.last << ")";
}

TEST(CheckpointLayout, PiecesAreTheRangesElementsAndNothingElse) {
    const ModelConfig model = test::odd_model();
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    const std::vector<StageSpan> last = {{1, 0, 2, 3, false, true}}, first = {{0, 0, 0, 2, true, false}};
    for (const auto& spans : {first, last}) {
        for (int rank = 0; rank < 4; ++rank) {
            const ParameterLayout layout(table, spans, TensorPart{4, rank});
            for (const Copies copies : {Copies::once, Copies::all}) {
                expect_pieces(layout, {0, layout.size()}, copies);
                expect_pieces(layout, {7, 7}, copies);
                for (i64 at = 11; at < layout.size(); at += 1537) {
                    expect_pieces(layout, {at, std::min(layout.size(), at + 2311)}, copies);
                    expect_pieces(layout, {at, at + 1}, copies);
                }
            }
        }
    }
}

TEST(CheckpointLayout, RemainderIsWhatNobodyTook) {
    const auto text = [](const std::vector<FlatRange>& ranges) {
        std::string all;
        for (const FlatRange& range : ranges) {
            all += std::to_string(range.first) + "-" + std::to_string(range.last) + " ";
        }
        return all;
    };
    EXPECT_EQ(text(remainder({5, 20}, {})), "5-20 ");
    EXPECT_EQ(text(remainder({5, 20}, {{8, 10}, {0, 6}, {9, 12}})), "6-8 12-20 ");
    EXPECT_EQ(text(remainder({5, 20}, {{30, 40}, {0, 2}})), "5-20 ");
    EXPECT_EQ(text(remainder({5, 20}, {{5, 20}})), "");
    EXPECT_EQ(text(remainder({5, 20}, {{0, 7}, {19, 40}})), "7-19 ");
    EXPECT_EQ(text(remainder({5, 5}, {})), "");
}

}  // namespace
}  // namespace ogrom
