#include "src/report/preflight.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ogrom {
namespace {

Preflight two_ranks() {
    Preflight found;
    found.ranks.resize(2);
    found.ranks[0].host = found.ranks[1].host = "a \"host\"";
    found.ranks[0].mask = "1100";
    found.ranks[1].mask = "0011";
    found.ranks[1].place.node_rank = 1;
    found.ranks[0].limits.locked_memory = ProcessLimits::unlimited;
    found.links.push_back({0, 1, LinkSpan::within_node, 2e-6, 4e9});
    found.axes.push_back({"all", 2, 1, {{ProbedCollective::all_gather, 1 << 20, 5, 0.001, 5e8, {}}}});
    found.matmul_dtype = "fp32";
    found.findings = {warning_of("clocks", "off"), fault_of(ExitCode::peer, "links", "slow")};
    return found;
}

TEST(PreflightReport, ListsOfCores) {
    EXPECT_EQ(core_list("111100001"), "0-3,8");
    EXPECT_EQ(core_list("0101"), "1,3");
    EXPECT_EQ(core_list("11"), "0-1");
    EXPECT_EQ(core_list("10"), "0");
    EXPECT_EQ(core_list("000"), "none");
    EXPECT_EQ(core_list(""), "none");
}

TEST(PreflightReport, JsonHasEverySectionAndTheFigures) {
    const nlohmann::json json = nlohmann::json::parse(preflight_json(two_ranks()));
    EXPECT_EQ(json["format"], 1);
    EXPECT_EQ(json["ranks"].size(), 2U);
    EXPECT_EQ(json["ranks"][0]["host"], "a \"host\"");
    EXPECT_EQ(json["ranks"][1]["cores"], "2-3");
    EXPECT_TRUE(json["ranks"][0]["locked_memory_bytes"].is_null());  // no limit
    EXPECT_EQ(json["links"][0]["latency_s"], 2e-6);
    EXPECT_EQ(json["links"][0]["span"], "within a node");
    EXPECT_EQ(json["collectives"][0]["call"], "all_gather");
    EXPECT_EQ(json["collectives"][0]["bus_bytes_per_s"], 5e8);
    EXPECT_EQ(json["findings"][1]["level"], "fault");
    EXPECT_EQ(json["findings"][1]["exit_code"], 6);
    EXPECT_EQ(json["exit_code"], 6);
    EXPECT_EQ(json["verdict"], "1 fault, 1 warning (exit code 6)");
}

TEST(PreflightReport, TextNamesFindingsAndVerdict) {
    const std::string text = preflight_text(two_ranks());
    for (const char* part :
         {"FAULT     links: slow", "warning   clocks: off", "verdict   1 fault, 1 warning (exit code 6)",
          "within a node", "all_gather", "a \"host\""}) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    Preflight well = two_ranks();
    well.findings.clear();
    EXPECT_EQ(preflight_verdict(well), "ok");
}

}  // namespace
}  // namespace ogrom
