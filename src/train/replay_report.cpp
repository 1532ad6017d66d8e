// The comparison of a replay for people and for scripts. Values are printed with their bits: a difference in the last
// place must be seen.
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/train/replay.h"

namespace ogrom {
namespace {

using nlohmann::ordered_json;

std::string bits_text(double value) {
    return fmt::format("{:016x}", std::bit_cast<u64>(value));
}

std::string pair_text(const char* name, double recorded, double replayed) {
    if (std::bit_cast<u64>(recorded) == std::bit_cast<u64>(replayed)) {
        return fmt::format("{} {} = {}", name, recorded, replayed);
    }
    const double relative = std::abs(replayed - recorded) / std::abs(recorded);
    return fmt::format("{} {} ({}) / {} ({}), relative {:.1e}", name, recorded, bits_text(recorded), replayed,
                       bits_text(replayed), relative);
}

std::string step_text(const ReplayStep& step) {
    const ReplayRow &a = step.recorded, &b = step.replayed;
    std::string text = fmt::format("step {}: {}; {}", a.step, pair_text("loss", a.loss, b.loss),
                                   pair_text("gradient norm", a.gradient_norm, b.gradient_norm));
    if (a.lr != b.lr) {
        text += fmt::format("; {}", pair_text("learning rate", a.lr, b.lr));
    }
    if (a.skipped || b.skipped) {
        text += fmt::format("; skipped {} / {}", a.skipped, b.skipped);
    }
    if (!step.bound) {
        text += a.weight_hash == b.weight_hash
                    ? fmt::format("; weight hash {:016x} = {:016x}", a.weight_hash, b.weight_hash)
                    : fmt::format("; weight hash {:016x} / {:016x}", a.weight_hash, b.weight_hash);
    }
    return text + (step.difference.empty() ? "" : fmt::format("  DIFFERS in the {}", step.difference)) + "\n";
}

std::string verdict_text(const ReplayReport& report) {
    const std::string how = report.against_bits.empty() ? "bit for bit" : "within the bound";
    if (const ReplayStep* const first = report.first_different()) {
        return fmt::format("DIFFERS: step {}, {}: the resumed run is not the one that was recorded",
                           first->recorded.step, first->difference);
    }
    if (report.stopped) {
        return fmt::format("stopped by a signal after {} of {} steps, equal {} so far", report.steps.size(),
                           report.recorded, how);
    }
    return fmt::format("equal {}: {} of {} recorded steps{}", how, report.steps.size(), report.recorded,
                       report.recorded < report.wanted
                           ? fmt::format(" (checkpoint.trace_steps was {}: that run ended before)", report.wanted)
                           : "");
}

ordered_json value_json(double recorded, double replayed) {
    return {{"recorded", recorded},
            {"recorded_bits", bits_text(recorded)},
            {"replayed", replayed},
            {"replayed_bits", bits_text(replayed)}};
}

}  // namespace

std::string report_text(const ReplayReport& report) {
    std::string text = fmt::format("replay of {}, recorded / replayed\n", report.checkpoint);
    for (const std::string& reason : report.against_bits) {
        text += fmt::format("bits need not agree: {}\n", reason);
    }
    for (const ReplayStep& step : report.steps) {
        text += step_text(step);
    }
    if (!report.steps.empty() && report.steps.back().bound) {
        const ReplayBound& bound = *report.steps.back().bound;
        text += fmt::format(
            "bound of the last step: loss {:.0e}, gradient norm {:.0e}, relative; hashes are not "
            "compared\n",
            bound.loss, bound.norm);
    }
    return text + verdict_text(report) + "\n";
}

std::string report_json(const ReplayReport& report) {
    ordered_json steps = ordered_json::array();
    for (const ReplayStep& step : report.steps) {
        const ReplayRow &a = step.recorded, &b = step.replayed;
        ordered_json row = {{"step", a.step},
                            {"loss", value_json(a.loss, b.loss)},
                            {"gradient_norm", value_json(a.gradient_norm, b.gradient_norm)},
                            {"lr", value_json(a.lr, b.lr)},
                            {"skipped", {{"recorded", a.skipped}, {"replayed", b.skipped}}},
                            {"weight_hash",
                             {{"recorded", fmt::format("{:016x}", a.weight_hash)},
                              {"replayed", fmt::format("{:016x}", b.weight_hash)}}}};
        if (step.bound) {
            row["bound"] = {{"loss", step.bound->loss}, {"gradient_norm", step.bound->norm}};
        }
        row["difference"] = step.difference;
        steps.push_back(std::move(row));
    }
    const ReplayStep* const first = report.first_different();
    ordered_json root = {{"format", 1},
                         {"checkpoint", report.checkpoint},
                         {"step", report.step},
                         {"wanted", report.wanted},
                         {"recorded", report.recorded},
                         {"compared", report.against_bits.empty() ? "bits" : "bound"},
                         {"bits_need_not_agree", report.against_bits},
                         {"steps", std::move(steps)},
                         {"equal", first == nullptr && !report.stopped},
                         {"first_difference", nullptr},
                         {"code", static_cast<int>(report.code())}};
    if (first != nullptr) {
        root["first_difference"] = {{"step", first->recorded.step}, {"quantity", first->difference}};
    }
    return root.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace ogrom
