#include "src/io/study_point.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/file.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using nlohmann::ordered_json;
using test::Folder;

StepCauses causes(double compute) {
    return {.compute = compute,
            .tensor_comm = 0.01,
            .data_comm = 0.02,
            .pipeline_comm = 0.03,
            .bubble = 0.04,
            .optimizer = 0.05,
            .offload = 0.06,
            .data_wait = 0.07,
            .other = -1e-5,
            .step = compute + 0.28 - 1e-5};
}

StudyPoint point() {
    StudyPoint p;
    p.id = "strong-dp_zero1-n2";
    p.study = "demo";
    p.kind = StudyKind::strong;
    p.layout = "dp zero1";
    p.axis = "dp";
    p.ranks = 2;
    p.ranks_per_node = 2;
    p.data = 2;
    p.zero = 1;
    p.schedule = "1f1b";
    p.threads_per_rank = 1;
    p.device = "cpu";
    p.model = "tiny \"x\"";
    p.parameters = 12'345;
    p.layers = 3;
    p.hidden = 60;
    p.heads = 4;
    p.sequence = 32;
    p.vocabulary = 509;
    p.weights_dtype = "fp32";
    p.recompute = "none";
    p.micro_batch = 2;
    p.accumulation = 3;
    p.global_batch = 12;
    p.tokens_per_step = 384;
    p.warmup_steps = 1;
    p.steps = 3;
    p.skipped_steps = 1;
    p.step_s = {{0.5, 0.4, 0.6}, {0.5, 0.7}};
    p.tokens_per_s = {384 / 0.55, 384 / 0.6, 384 / 0.5};
    p.step_median_s = {0.55, 0.5, 0.6};
    p.model_flops_per_token = 1e6;
    p.model_flops_square_per_token = 1.1e6;
    p.hardware_flops_per_token = 1.3e6;
    p.matmul_rate = 5e10;
    p.causes = {causes(0.3), causes(0.1 + 0.2)};
    p.ledger = {{"weights", "device", 1 << 20}, {"libraries", "baseline", 5}};
    p.traffic = {{"dp", 4096}};
    p.machine = "a CPU";
    p.host = "h";
    p.commit = "0123";
    p.date = "2026-01-01T00:00:00Z";
    p.command = "ogrom scale x.toml";
    p.run_file = "[model]\nlayers = 3\n";
    p.versions = {{"MPI", "4.1"}, {"HDF5", "1.10"}};
    return p;
}

std::string message_of(const std::string& text) {
    try {
        (void)parse_study_point(text, "points/x.json");
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::data);
        return error.what();
    }
    return {};
}

// The text of a good point with one place changed.
template <class Change>
std::string changed(const Change& change) {
    auto json = ordered_json::parse(to_text(point()));
    change(json);
    return json.dump();
}

void expect_refused(const std::string& text, const std::string& key) {
    const std::string message = message_of(text);
    EXPECT_NE(message.find("points/x.json"), std::string::npos) << message;
    EXPECT_NE(message.find(key), std::string::npos) << key << " in: " << message;
}

TEST(StudyPoint, ComesBackFromItsFileInFull) {
    const Folder folder;
    write_study_point(folder.path(), point());
    const StudyPoint back = read_study_point(folder.path("points/strong-dp_zero1-n2.json"));
    EXPECT_EQ(to_text(back), to_text(point()));
    EXPECT_EQ(back.kind, StudyKind::strong);
    EXPECT_EQ(back.step_s, point().step_s);
    EXPECT_EQ(back.causes[1].compute, 0.1 + 0.2);
    EXPECT_EQ(back.ledger[0].bytes, 1 << 20);
    EXPECT_EQ(back.versions, point().versions);
    EXPECT_TRUE(std::isnan(back.predicted_step_s));
    StudyPoint planned = point();
    planned.predicted_step_s = 0.125;
    EXPECT_EQ(parse_study_point(to_text(planned), "x").predicted_step_s, 0.125);
}

TEST(StudyPoint, ARefusedOneHasNoFigures) {
    StudyPoint p;
    p.id = "weak-tp-n3";
    p.layout = "tp";
    p.axis = "tp";
    p.ranks = 3;
    p.refused = "parallel.tensor = 3 does not divide model.heads = 4";
    const std::string text = to_text(p);
    const StudyPoint back = parse_study_point(text, "x");
    EXPECT_EQ(back.refused, p.refused);
    EXPECT_TRUE(back.step_s.empty());
    EXPECT_EQ(text.find("tokens_per_s\""), std::string::npos);
    auto with = ordered_json::parse(text);
    with["matmul_rate"] = 1.0;
    expect_refused(with.dump(), "matmul_rate");
}

TEST(StudyPoint, RefusesWhatIsNoPointAndNamesTheKey) {
    expect_refused("{", "JSON");
    expect_refused("[]", "study point");
    expect_refused(R"({"format": 1, "format": 1})", "twice");
    expect_refused(changed([](ordered_json& j) { j["format"] = 2; }), "format: 2");
    expect_refused(changed([](ordered_json& j) { j["colour"] = 2; }), "colour");
    expect_refused(changed([](ordered_json& j) { j.erase("hidden"); }), "hidden: nothing");
    expect_refused(changed([](ordered_json& j) { j["kind"] = "week"; }), "kind");
    expect_refused(changed([](ordered_json& j) { j["axis"] = "cp"; }), "axis");
    expect_refused(changed([](ordered_json& j) { j["id"] = "../x"; }), "id");
    expect_refused(changed([](ordered_json& j) { j["ranks"] = 2.5; }), "ranks");
    expect_refused(changed([](ordered_json& j) { j["data"] = 1; }), "pipeline x data x tensor");
    expect_refused(changed([](ordered_json& j) { j["parameters"] = -1; }), "parameters");
    expect_refused(changed([](ordered_json& j) { j["layers"] = 1ULL << 63; }), "layers");
    expect_refused(changed([](ordered_json& j) { j["oversubscribed"] = 1; }), "oversubscribed");
    expect_refused(changed([](ordered_json& j) { j["host"] = nullptr; }), "host");
    expect_refused(changed([](ordered_json& j) { j["versions"]["MPI"] = 4; }), "versions.MPI");
}

TEST(StudyPoint, RefusesFiguresThatDoNotFitEachOther) {
    expect_refused(changed([](ordered_json& j) { j["step_s"] = ordered_json::array(); }), "step_s");
    expect_refused(changed([](ordered_json& j) { j["step_s"][0].push_back(0.5); }), "step_s");
    expect_refused(changed([](ordered_json& j) { j["step_s"][0][1] = 0; }), "step_s");
    expect_refused(changed([](ordered_json& j) { j["step_s"][0][1] = nullptr; }), "step_s");
    expect_refused(changed([](ordered_json& j) { j["tokens_per_s"]["low"] = 1e9; }), "tokens_per_s");
    expect_refused(changed([](ordered_json& j) { j["causes"].erase(0); }), "causes");
    expect_refused(changed([](ordered_json& j) { j["causes"][1]["bubble"] = 0.05; }), "causes[1].step");
    expect_refused(changed([](ordered_json& j) { j["causes"][0]["idle"] = 0; }), "causes[0].\"idle\"");
    expect_refused(changed([](ordered_json& j) { j["ledger"][0]["bytes"] = "1"; }), "ledger[0].bytes");
    expect_refused(changed([](ordered_json& j) { j["traffic"][0].erase("axis"); }), "traffic[0].axis");
    expect_refused(changed([](ordered_json& j) { j["predicted_step_s"] = "soon"; }), "predicted_step_s");
}

TEST(StudyPoint, IdsAreSafeFileNames) {
    EXPECT_EQ(study_point_id(StudyKind::weak, "tp+pp", 8), "weak-tp+pp-n8");
    EXPECT_EQ(study_point_id(StudyKind::strong, "../a b", 1), "strong-.._a_b-n1");
}

TEST(StudyPoint, SpreadIsOfTheRepeatsMedians) {
    EXPECT_EQ(median_of({3, 1, 2}), 2);
    EXPECT_EQ(median_of({4, 1}), 2.5);
    const Spread spread = spread_of({0.5, 0.3, 0.4});
    EXPECT_EQ(spread.median, 0.4);
    EXPECT_EQ(spread.low, 0.3);
    EXPECT_EQ(spread.high, 0.5);
}

}  // namespace
}  // namespace ogrom
