// Comes in: a point, or the text of a file that others may have written. Goes out: JSON, or the point, checked.
#include "src/io/study_point.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/text.h"

namespace ogrom {

using nlohmann::ordered_json;

namespace {

ordered_json to_json(const Spread& spread) {
    return {{"median", spread.median}, {"low", spread.low}, {"high", spread.high}};
}

ordered_json to_json(const StepCauses& c) {
    return {{"compute", c.compute},     {"tensor_comm", c.tensor_comm},
            {"data_comm", c.data_comm}, {"pipeline_comm", c.pipeline_comm},
            {"bubble", c.bubble},       {"optimizer", c.optimizer},
            {"offload", c.offload},     {"data_wait", c.data_wait},
            {"other", c.other},         {"step", c.step}};
}

// What a refused point has not.
void add_figures(ordered_json& root, const StudyPoint& p) {
    root["step_s"] = p.step_s;
    root["tokens_per_s"] = to_json(p.tokens_per_s);
    root["step_median_s"] = to_json(p.step_median_s);
    root["matmul_rate"] = p.matmul_rate;
    root["causes"] = ordered_json::array();
    for (const StepCauses& causes : p.causes) {
        root["causes"].push_back(to_json(causes));
    }
    root["ledger"] = ordered_json::array();
    for (const StudyLine& line : p.ledger) {
        root["ledger"].push_back({{"name", line.name}, {"tier", line.tier}, {"bytes", line.bytes}});
    }
    root["traffic"] = ordered_json::array();
    for (const StudyTraffic& traffic : p.traffic) {
        root["traffic"].push_back({{"axis", traffic.axis}, {"bytes", traffic.bytes}});
    }
    root["predicted_step_s"] = std::isnan(p.predicted_step_s) ? ordered_json() : ordered_json(p.predicted_step_s);
}

bool safe_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '+' ||
           c == '-';
}

}  // namespace

std::string_view name_of(StudyKind kind) {
    return kind == StudyKind::weak ? "weak" : "strong";
}

double median_of(std::vector<double> values) {
    OGROM_ASSERT(!values.empty());
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Spread spread_of(const std::vector<double>& medians) {
    const auto [low, high] = std::minmax_element(medians.begin(), medians.end());
    return {median_of(medians), *low, *high};
}

double StepCauses::sum() const {
    return compute + tensor_comm + data_comm + pipeline_comm + bubble + optimizer + offload + data_wait + other;
}

std::string study_point_id(StudyKind kind, std::string_view layout, i64 ranks) {
    std::string label(layout);
    std::replace_if(
        label.begin(), label.end(), [](char c) { return !safe_letter(c); }, '_');
    return fmt::format("{}-{}-n{}", name_of(kind), label, ranks);
}

std::string to_text(const StudyPoint& p) {
    ordered_json versions = ordered_json::object();
    for (const auto& [name, version] : p.versions) {
        versions[name] = version;
    }
    ordered_json root = {{"format", study_point_format},
                         {"id", p.id},
                         {"study", p.study},
                         {"kind", name_of(p.kind)},
                         {"layout", p.layout},
                         {"axis", p.axis},
                         {"ranks", p.ranks},
                         {"nodes", p.nodes},
                         {"ranks_per_node", p.ranks_per_node},
                         {"pipeline", p.pipeline},
                         {"data", p.data},
                         {"tensor", p.tensor},
                         {"zero", p.zero},
                         {"schedule", p.schedule},
                         {"oversubscribed", p.oversubscribed},
                         {"threads_per_rank", p.threads_per_rank},
                         {"device", p.device},
                         {"model", p.model},
                         {"parameters", p.parameters},
                         {"layers", p.layers},
                         {"hidden", p.hidden},
                         {"heads", p.heads},
                         {"sequence", p.sequence},
                         {"vocabulary", p.vocabulary},
                         {"weights_dtype", p.weights_dtype},
                         {"recompute", p.recompute},
                         {"micro_batch", p.micro_batch},
                         {"accumulation", p.accumulation},
                         {"global_batch", p.global_batch},
                         {"tokens_per_step", p.tokens_per_step},
                         {"warmup_steps", p.warmup_steps},
                         {"steps", p.steps},
                         {"skipped_steps", p.skipped_steps},
                         {"model_flops_per_token", p.model_flops_per_token},
                         {"model_flops_square_per_token", p.model_flops_square_per_token},
                         {"hardware_flops_per_token", p.hardware_flops_per_token},
                         {"refused", p.refused},
                         {"machine", p.machine},
                         {"host", p.host},
                         {"commit", p.commit},
                         {"date", p.date},
                         {"command", p.command},
                         {"run_file", p.run_file},
                         {"versions", std::move(versions)}};
    if (p.refused.empty()) {
        add_figures(root, p);
    }
    return root.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string study_point_path(const std::string& folder, const std::string& id) {
    return join_path(join_path(folder, study_points_folder), id + ".json");
}

void write_study_point(const std::string& folder, const StudyPoint& point) {
    make_directories(join_path(folder, study_points_folder));
    write_file_atomic(study_point_path(folder, point.id), to_text(point));
}

StudyPoint read_study_point(const std::string& path) {
    return parse_study_point(read_file(path, study_point_limit), path);
}

}  // namespace ogrom
