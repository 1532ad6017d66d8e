#include "src/commands/scale_table.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ogrom {
namespace {

StudyPoint point(i64 ranks, double rate) {
    StudyPoint p;
    p.id = study_point_id(StudyKind::weak, "dp", ranks);
    p.layout = "dp";
    p.ranks = ranks;
    p.steps = 10;
    p.step_s = {{1}, {1}, {1}};
    p.step_median_s = {1, 1, 1};
    p.tokens_per_s = {rate, rate, rate};
    StepCauses causes;
    causes.compute = 0.7;
    causes.data_comm = 0.2;
    causes.bubble = 0.1;
    causes.step = 1;
    p.causes.assign(static_cast<std::size_t>(ranks), causes);
    return p;
}

TEST(ScaleTable, EfficiencyIsPerRankAgainstTheSmallestRunThatIsNotOversubscribed) {
    std::vector<StudyPoint> points = {point(1, 50), point(2, 100), point(4, 180), point(8, 200), point(2, 90)};
    points[0].refused = "does not fit";
    points[3].oversubscribed = true;
    points[4].layout = "tp";
    const std::vector<ScaleRow> rows = scale_rows(points);
    EXPECT_EQ(rows[0].base, 0);
    EXPECT_EQ(rows[1].base, 2);
    EXPECT_DOUBLE_EQ(rows[1].efficiency, 1);
    EXPECT_DOUBLE_EQ(rows[2].efficiency, 0.9);
    EXPECT_EQ(rows[3].efficiency, 0);
    EXPECT_DOUBLE_EQ(rows[4].efficiency, 1);
    EXPECT_EQ(rows[2].loss_name, "data_comm");
    EXPECT_NEAR(rows[2].loss_share, 0.2, 1e-12);
}

TEST(ScaleTable, SaysWhatWasRefusedMarkedAndComparedWith) {
    std::vector<StudyPoint> points = {point(1, 50), point(2, 90), point(4, 100)};
    points[2].oversubscribed = true;
    points.push_back(point(3, 1));
    points[3].refused = "3 heads short";
    const std::string table = scale_table(points);
    for (const char* text : {"90.0 % of 1", "oversubscribed", "refused: 3 heads short", "data_comm 20.0 %", "3 x 10"}) {
        EXPECT_NE(table.find(text), std::string::npos) << text << " in\n" << table;
    }
    const auto json = nlohmann::json::parse(scale_json(points, "s", "f"));
    EXPECT_EQ(json["points"].size(), 4U);
    EXPECT_DOUBLE_EQ(json["points"][1]["efficiency"].get<double>(), 0.9);
    EXPECT_EQ(json["points"][1]["base_ranks"], 1);
    EXPECT_EQ(json["points"][1]["repeats"], 3);
    EXPECT_TRUE(json["points"][2]["efficiency"].is_null());
    EXPECT_FALSE(json["points"][3].contains("tokens_per_s"));
}

}  // namespace
}  // namespace ogrom
