#include "src/commands/scale_table.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/train/causes.h"

namespace ogrom {
namespace {

bool states_efficiency(const StudyPoint& p) {
    return p.refused.empty() && !p.oversubscribed;
}

double rate_per_rank(const StudyPoint& p) {
    return p.tokens_per_s.median / static_cast<double>(p.ranks);
}

const StudyPoint* base_of(const StudyPoint& p, std::span<const StudyPoint> points) {
    const StudyPoint* base = nullptr;
    for (const StudyPoint& other : points) {
        if (other.kind == p.kind && other.layout == p.layout && states_efficiency(other) &&
            (base == nullptr || other.ranks < base->ranks)) {
            base = &other;
        }
    }
    return base;
}

void find_loss(ScaleRow& row) {
    double step = 0;
    StepCauses sum;
    for (const StepCauses& causes : row.point->causes) {
        sum = add(sum, causes);
        step += causes.step;
    }
    for (const CauseName& cause : cause_names()) {
        if (cause.member != &StepCauses::compute &&
            (row.loss_name.empty() || sum.*cause.member / step > row.loss_share)) {
            row.loss_name = cause.name;
            row.loss_share = sum.*cause.member / step;
        }
    }
}

std::string repeats_text(const StudyPoint& p) {
    return fmt::format("{} x {}", p.step_s.size(), p.steps);
}

std::string line_of(const ScaleRow& row) {
    const StudyPoint& p = *row.point;
    const std::string head = fmt::format("{:<6} {:<20} {:>6}  ", name_of(p.kind), p.layout, p.ranks);
    if (!p.refused.empty()) {
        return head + "refused: " + p.refused + "\n";
    }
    const std::string efficiency = row.efficiency > 0 ? fmt::format("{:5.1f} % of {}", 100 * row.efficiency, row.base)
                                   : p.oversubscribed ? std::string("oversubscribed")
                                                      : std::string("-");
    return head + fmt::format("{:>10.4g}  {:>10.5g} ({:.5g} .. {:.5g})  {:>8}  {:<16} {} {:.1f} %\n",
                              1e3 * p.step_median_s.median, p.tokens_per_s.median, p.tokens_per_s.low,
                              p.tokens_per_s.high, repeats_text(p), efficiency, row.loss_name, 100 * row.loss_share);
}

}  // namespace

std::vector<ScaleRow> scale_rows(std::span<const StudyPoint> points) {
    std::vector<ScaleRow> rows;
    for (const StudyPoint& point : points) {
        ScaleRow& row = rows.emplace_back();
        row.point = &point;
        if (!point.refused.empty()) {
            continue;
        }
        const StudyPoint* base = base_of(point, points);
        if (base != nullptr && states_efficiency(point)) {
            row.base = base->ranks;
            row.efficiency = rate_per_rank(point) / rate_per_rank(*base);
        }
        find_loss(row);
    }
    return rows;
}

std::string scale_table(std::span<const StudyPoint> points) {
    std::string text = fmt::format("{:<6} {:<20} {:>6}  {:>10}  {:<32}  {:>8}  {:<16} {}\n", "kind", "layout", "ranks",
                                   "ms/step", "tokens/s (lowest .. highest)", "repeats", "efficiency", "largest loss");
    for (const ScaleRow& row : scale_rows(points)) {
        text += line_of(row);
    }
    text +=
        "medians of the repeats (repeats x steps, warm-up left out); efficiency: tokens/s per rank against the "
        "smallest "
        "run of the\nsame kind and layout that is not oversubscribed; largest loss: of the step, mean of the ranks\n";
    return text;
}

std::string scale_json(std::span<const StudyPoint> points, const std::string& study, const std::string& folder) {
    nlohmann::ordered_json root = {{"format", 1}, {"study", study}, {"folder", folder}};
    root["points"] = nlohmann::ordered_json::array();
    for (const ScaleRow& row : scale_rows(points)) {
        const StudyPoint& p = *row.point;
        nlohmann::ordered_json one = {{"id", p.id},           {"kind", name_of(p.kind)},
                                      {"layout", p.layout},   {"ranks", p.ranks},
                                      {"refused", p.refused}, {"oversubscribed", p.oversubscribed}};
        if (p.refused.empty()) {
            one["repeats"] = p.step_s.size();
            one["step_median_s"] = p.step_median_s.median;
            one["tokens_per_s"] = {
                {"median", p.tokens_per_s.median}, {"low", p.tokens_per_s.low}, {"high", p.tokens_per_s.high}};
            one["efficiency"] = row.efficiency > 0 ? nlohmann::ordered_json(row.efficiency) : nlohmann::ordered_json();
            one["base_ranks"] = row.base;
            one["largest_loss"] = row.loss_name;
            one["largest_loss_share"] = row.loss_share;
        }
        root["points"].push_back(std::move(one));
    }
    return root.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ogrom
