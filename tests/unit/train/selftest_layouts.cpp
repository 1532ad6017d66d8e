// The layouts of the self-test: all meshes, stages and schedules, and pairs of the other factors.
#include "src/train/selftest_layouts.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "src/train/layout_trial.h"

namespace ogrom::test {
namespace {

std::string mesh_of(const SelftestLayout& l) {
    return fmt::format("{} pp{} dp{} tp{} zero{} schedule{}", l.model, l.pipeline, l.data, l.tensor, l.zero,
                       l.pipeline > 1 ? static_cast<int>(l.schedule) : 0);
}

TEST(SelftestLayouts, HoldEveryMeshStageAndSchedule) {
    for (const i64 ranks : {1, 2, 4, 6, 8}) {
        std::map<std::string, int> seen;
        for (const SelftestLayout& layout : selftest_layouts(ranks, Coverage::pairwise)) {
            ++seen[mesh_of(layout)];
        }
        std::size_t expected = 0;
        for (i64 pp = 1; pp <= ranks; ++pp) {
            for (i64 tp = 1; tp <= ranks; ++tp) {
                if (ranks % pp != 0 || ranks / pp % tp != 0) {
                    continue;
                }
                for (i64 model = 0; model < 2; ++model) {
                    for (i64 zero = 0; zero <= 3; ++zero) {
                        for (int schedule = 0; schedule < (pp > 1 ? 4 : 1); ++schedule) {
                            const std::string name = fmt::format("{} pp{} dp{} tp{} zero{} schedule{}", model, pp,
                                                                 ranks / pp / tp, tp, zero, schedule);
                            EXPECT_EQ(seen[name], 1) << name;
                            ++expected;
                        }
                    }
                }
            }
        }
        EXPECT_EQ(seen.size(), expected) << ranks << " ranks";
    }
}

// Factors that have an effect in a layout, with their values.
std::map<std::string, std::string> values_of(const SelftestLayout& l) {
    std::map<std::string, std::string> values;
    values["zero"] = fmt::format("{}", l.zero);
    values["recompute"] = fmt::format("{}/{}", static_cast<int>(l.recompute), l.recompute_interval);
    values["deterministic"] = fmt::format("{}", l.deterministic);
    values["model"] = fmt::format("{}", l.model);
    values["variant"] = fmt::format("dropout {} tied {}", l.dropout, l.tied);
    values["micro"] = fmt::format("{}", l.micro_batch);
    if (l.pipeline > 1) {
        values["schedule"] = fmt::format("{}", static_cast<int>(l.schedule));
    }
    if (l.tensor > 1) {
        values["sequence parallel"] = fmt::format("{}", l.sequence_parallel);
    }
    if (l.data > 1) {
        values["buckets"] = fmt::format("{}", l.small_buckets);
        values["overlap"] = fmt::format("{}", l.overlap);
    }
    if (l.zero > 0 && l.data > 1 && l.data % 2 == 0) {
        values["replicas"] = fmt::format("{}", l.replicas);
    }
    if (l.zero == 3 && l.data > 1) {
        values["regather"] = fmt::format("{}", l.regather_once);
    }
    return values;
}

std::set<std::string> pairs_of(const std::vector<SelftestLayout>& layouts) {
    std::set<std::string> pairs;
    for (const SelftestLayout& layout : layouts) {
        const std::map<std::string, std::string> values = values_of(layout);
        for (auto a = values.begin(); a != values.end(); ++a) {
            for (auto b = std::next(a); b != values.end(); ++b) {
                pairs.insert(fmt::format("{} {} with {} {}", a->first, a->second, b->first, b->second));
            }
        }
    }
    return pairs;
}

std::vector<std::string> missing(const std::set<std::string>& all, const std::set<std::string>& met) {
    std::vector<std::string> missed;
    std::set_difference(all.begin(), all.end(), met.begin(), met.end(), std::back_inserter(missed));
    return missed;
}

std::set<std::string> single_values(const std::vector<SelftestLayout>& layouts) {
    std::set<std::string> singles;
    for (const SelftestLayout& layout : layouts) {
        for (const auto& [factor, value] : values_of(layout)) {
            singles.insert(fmt::format("{} {}", factor, value));
        }
    }
    return singles;
}

// Where a factor has no effect, its levels do not count. Two and four ranks have too few meshes for all pairs.
TEST(SelftestLayouts, EveryPairOfValuesMeetsOnEightRanks) {
    const std::set<std::string> all = pairs_of(selftest_layouts(8, Coverage::full));
    EXPECT_GT(all.size(), 200u);
    EXPECT_EQ(missing(all, pairs_of(selftest_layouts(8, Coverage::pairwise))), std::vector<std::string>{});
}

TEST(SelftestLayouts, EveryValueOccursOnTwoAndFour) {
    for (const i64 ranks : {2, 4}) {
        const std::set<std::string> all = single_values(selftest_layouts(ranks, Coverage::full));
        EXPECT_GT(all.size(), 20u);
        EXPECT_EQ(missing(all, single_values(selftest_layouts(ranks, Coverage::pairwise))), std::vector<std::string>{})
            << ranks << " ranks";
    }
}

TEST(SelftestLayouts, NamesAreUniqueAndRunFilesSayWhatTheNameSays) {
    for (const i64 ranks : {1, 2, 4, 8}) {
        std::set<std::string> names;
        i64 refused = 0, accepted = 0;
        for (const SelftestLayout& layout : selftest_layouts(ranks, Coverage::pairwise)) {
            EXPECT_TRUE(names.insert(layout.name()).second) << layout.name();
            RunConfig run;
            try {
                run = parse_layout(layout, ranks);
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), ExitCode::usage) << layout.name();
                ++refused;
                continue;
            }
            ++accepted;
            const ParallelConfig& p = run.parallel;
            EXPECT_EQ((std::array{p.pipeline, p.data, p.tensor, p.zero}),
                      (std::array{layout.pipeline, layout.data, layout.tensor, layout.zero}))
                << layout.name();
            EXPECT_TRUE(layout.pipeline == 1 || p.schedule == layout.schedule) << layout.name();
            EXPECT_EQ(p.sequence_parallel, layout.sequence_parallel) << layout.name();
            EXPECT_EQ(p.data / p.zero_group > 1, layout.replicas) << layout.name();
            EXPECT_EQ(p.regather == Regather::step, layout.regather_once) << layout.name();
            EXPECT_EQ(run.train.recompute, layout.recompute) << layout.name();
            EXPECT_EQ(run.train.recompute_interval, layout.recompute_interval) << layout.name();
            EXPECT_EQ(run.train.micro_batch, layout.micro_batch) << layout.name();
            EXPECT_EQ(run.train.global_batch, layout.sizes().batch) << layout.name();
            EXPECT_EQ(run.numerics.deterministic, layout.deterministic) << layout.name();
            EXPECT_EQ(run.model.dropout_attention > 0, layout.dropout) << layout.name();
            EXPECT_EQ(run.model.tied, layout.tied) << layout.name();
            EXPECT_TRUE(layout.data == 1 || run.comm.overlap == layout.overlap) << layout.name();
        }
        EXPECT_GT(accepted, refused) << ranks << " ranks";
    }
}

TEST(SelftestLayouts, ReferencesAreTheSerialRunsOfTheirModels) {
    for (i64 reference = 0; reference < selftest_references; ++reference) {
        const SelftestLayout serial = selftest_serial(reference);
        EXPECT_EQ(serial.reference(), reference);
        EXPECT_EQ(serial.pipeline * serial.data * serial.tensor, 1);
        const RunConfig run = parse_layout(serial, 1);
        EXPECT_EQ(run.train.accumulation, 1);
        EXPECT_EQ(run.train.global_batch, serial.sizes().batch);
    }
}

}  // namespace
}  // namespace ogrom::test
