// Steps that a study measures are those of the real trainer, on a part of the ranks: as many as were asked for without
// the warm-up, their tokens real, the causes of each rank the whole of its step; and nothing is written.
#include "src/train/measure.h"

#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/file.h"

#include "tests/equivalence/corpus.h"

namespace ogrom::test {
namespace {

using Overrides = std::vector<std::string>;

void expect_figures(const Repeat& repeat, const RunConfig& run, i64 ranks) {
    const StudyPoint& p = repeat.point;
    EXPECT_TRUE(p.refused.empty()) << p.refused;
    EXPECT_EQ(p.ranks, ranks);
    ASSERT_EQ(p.step_s.size(), 1U);
    EXPECT_EQ(p.step_s[0].size(), 3U);
    EXPECT_EQ(repeat.traced_steps, 3);
    EXPECT_EQ(p.skipped_steps, 0);
    EXPECT_GT(p.tokens_per_step, 0);
    EXPECT_LE(p.tokens_per_step, run.train.global_batch * run.train.sequence);
    EXPECT_GT(p.step_median_s.median, 0);
    EXPECT_GT(p.matmul_rate, 0);
    ASSERT_EQ(p.causes.size(), static_cast<std::size_t>(ranks));
    for (const StepCauses& causes : p.causes) {
        EXPECT_GT(causes.compute, 0);
        EXPECT_GT(causes.optimizer, 0);
        EXPECT_NEAR(causes.sum(), causes.step, 1e-9 * causes.step);
        EXPECT_EQ(run.parallel.tensor > 1, causes.tensor_comm > 0);
        EXPECT_EQ(run.parallel.pipeline > 1, causes.bubble > 0);
    }
    EXPECT_FALSE(p.ledger.empty());
    EXPECT_EQ(p.traffic.empty(), ranks == 1);
    // The form of the file takes what was measured.
    StudyPoint whole = p;
    whole.id = study_point_id(StudyKind::weak, "x", ranks);
    whole.layout = "x";
    whole.axis = "dp";
    EXPECT_EQ(to_text(parse_study_point(to_text(whole), "x")), to_text(whole));
}

TEST(Measure, StepsOfAPartHaveTheirTimesAndCauses) {
    const SharedFolder folder;
    const std::string corpus = folder.path("corpus"), output = folder.path("out");
    write_corpus(corpus);
    Session& all = session();
    std::vector<std::pair<i64, Overrides>> points = {{1, {}}};
    if (all.size() >= 2) {
        points.push_back({2, {"parallel.data=2", "parallel.zero=3"}});
        points.push_back({2, {"parallel.tensor=2", "model.heads=4"}});
        points.push_back({2, {"parallel.pipeline=2"}});
    }
    for (const auto& [ranks, overrides] : points) {
        std::unique_ptr<Session> part = all.part(static_cast<int>(ranks));
        const bool ran = part != nullptr;
        if (ran) {
            const RunConfig run = corpus_run(corpus, output, overrides, ranks);
            const Repeat repeat = measure(*part, run, {2, 3});
            EXPECT_FALSE(repeat.stopped);
            if (all.rank() == 0) {
                expect_figures(repeat, run, ranks);
            }
            part.reset();
        }
        Pending met = all.world().barrier("measured");
        if (ran) {
            met.wait();
        } else {
            all.rest(met);
        }
    }
    EXPECT_FALSE(file_exists(output));
}

}  // namespace
}  // namespace ogrom::test
