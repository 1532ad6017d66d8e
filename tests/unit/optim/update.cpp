#include <fmt/format.h>
#include <gtest/gtest.h>
#include <vector>

#include "src/optim/clip.h"
#include "src/optim/shard.h"

#include "tests/unit/optim/odd_model.h"

namespace ogrom {
namespace {

TEST(ClipFactor, ScalesOnlyWhatIsLonger) {
    EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
    EXPECT_EQ(clip_factor(1.0, 1.0), 1.0);
    EXPECT_DOUBLE_EQ(clip_factor(4.0, 1.0), 0.25);
    EXPECT_DOUBLE_EQ(clip_factor(3.0, 0.5) * 3.0, 0.5);
    EXPECT_EQ(clip_factor(1e9, 0.0), 1.0);  // 0 = no clipping
}

TEST(UpdateRanges, CoverEveryTensorWithItsDecay) {
    const OddLayout odd;
    const std::vector<UpdateRange> ranges = make_update_ranges(odd.layout, 0.1);
    i64 next = 0;
    for (const UpdateRange& range : ranges) {
        EXPECT_EQ(range.first, next);
        next = range.last;
    }
    EXPECT_EQ(next, odd.layout.size());
    for (std::size_t r = 1; r < ranges.size(); ++r) {
        EXPECT_NE(ranges[r].decay, ranges[r - 1].decay) << "neighbours with equal settings are one range";
    }
    for (const LocalTensor& tensor : odd.layout.tensors()) {
        const ParameterGroup group = tensor.parameter->group;
        const bool decays = group == ParameterGroup::matrix || group == ParameterGroup::embedding;
        for (const UpdateRange& range : ranges) {
            if (tensor.offset >= range.first && tensor.offset < range.last) {
                EXPECT_EQ(range.decay, decays ? 0.1 : 0.0) << tensor.parameter->name;
            }
        }
    }
}

TEST(UpdateRanges, FrozenTensorsStayOut) {
    std::vector<Parameter> rows;
    for (i64 id = 0; id < 3; ++id) {
        Parameter row;
        row.id = id;
        row.name = fmt::format("p{}", id);
        row.shape = row.padded_shape = {5};
        row.layer = -1;
        row.frozen = id == 1;
        rows.push_back(row);
    }
    const ParameterTable table(std::move(rows));
    const ParameterLayout layout(table, StageSpan{0, 0, 0, 0, true, true});
    const std::vector<UpdateRange> ranges = make_update_ranges(layout, 0.1);
    ASSERT_EQ(ranges.size(), 2u);
    EXPECT_EQ(ranges[0].last, 5);
    EXPECT_EQ(ranges[1].first, 10);
}

}  // namespace
}  // namespace ogrom
