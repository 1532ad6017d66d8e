// The chosen layouts of the self-test: few, valid, and together everything that any layout makes an axis do.
#include "src/train/selftest_chosen.h"

#include <gtest/gtest.h>

#include "src/train/layout_trial.h"

namespace ogrom::test {
namespace {

constexpr i64 most = 24;

TEST(SelftestChosen, CoverEveryCollectiveOfEveryAxis) {
    std::set<std::string> calls;
    i64 count = 0;
    for (const i64 ranks : {2, 4, 8}) {
        for (const ChosenLayout& chosen : selftest_chosen(ranks)) {
            calls.merge(axis_calls(chosen.layout));
            ++count;
        }
    }
    EXPECT_LE(count, most);
    EXPECT_GE(all_axis_calls().size(), 13U);
    EXPECT_EQ(calls, all_axis_calls());
}

TEST(SelftestChosen, AreValidRunsOfTheirRanks) {
    for (const i64 ranks : {2, 4, 8}) {
        ASSERT_FALSE(selftest_chosen(ranks).empty());
        for (const ChosenLayout& chosen : selftest_chosen(ranks)) {
            EXPECT_EQ(chosen.layout.pipeline * chosen.layout.data * chosen.layout.tensor, ranks);
            EXPECT_NO_THROW(parse_layout(chosen.layout, ranks)) << chosen.layout.name();
            EXPECT_FALSE(chosen.why.empty());
        }
    }
    EXPECT_TRUE(selftest_chosen(3).empty());
}

}  // namespace
}  // namespace ogrom::test
