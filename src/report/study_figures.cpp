// Comes in: curves. Goes out: charts as values; oversubscribed points are in none. Next: report/figure.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>

#include "src/report/study_page.h"

namespace ogrom {
namespace {

struct Scale {
    double factor;
    const char* prefix;
};

Scale scale_for(double largest) {
    return largest >= 2e9   ? Scale{1e-9, "billion "}
           : largest >= 2e6 ? Scale{1e-6, "million "}
           : largest >= 2e3 ? Scale{1e-3, "thousand "}
                            : Scale{1, ""};
}

// Sizes that are apart enough to be read, the largest always.
std::vector<double> ticks_of(const std::set<i64>& ranks) {
    std::vector<double> ticks;
    for (auto it = ranks.rbegin(); it != ranks.rend(); ++it) {
        if (ticks.empty() || static_cast<double>(*it) * 1.35 < ticks.back()) {
            ticks.push_back(static_cast<double>(*it));
        }
    }
    std::reverse(ticks.begin(), ticks.end());
    return ticks;
}

std::string left_out(const StudyGroup& group, StudyKind kind) {
    std::set<i64> crowded;
    for (const Series& series : group.series) {
        for (const SeriesPoint& p : series.points) {
            if (series.kind == kind && p.measured() && !p.counts()) {
                crowded.insert(p.point.ranks);
            }
        }
    }
    std::string list;
    for (const i64 ranks : crowded) {
        list += fmt::format("{}{}", list.empty() ? "" : ", ", ranks);
    }
    return list.empty() ? "" : fmt::format("Left out as oversubscribed: {} ranks.", list);
}

std::string beyond(std::size_t lines) {
    return lines <= most_lines ? "" : fmt::format(" The first {} of {} layouts are drawn.", most_lines, lines);
}

}  // namespace

LineFigure curve_figure(const StudyGroup& group, StudyKind kind, CurveOf what, const std::string& prefix) {
    const bool weak = kind == StudyKind::weak, rate = what == CurveOf::throughput;
    double largest = 0;
    std::set<i64> sizes;
    LineFigure figure;
    for (const Series& series : group.series) {
        Line line{series.label, {}};
        for (const SeriesPoint& p : series.points) {
            if (series.kind != kind || !p.counts() || (!rate && p.efficiency.base_ranks == 0)) {
                continue;
            }
            const auto ranks = static_cast<double>(p.point.ranks);
            const Spread& s = p.point.tokens_per_s;
            const Efficiency& e = p.efficiency;
            line.points.push_back(rate ? LinePoint{ranks, s.median / ranks, s.low / ranks, s.high / ranks}
                                       : LinePoint{ranks, 100 * e.value, 100 * e.low, 100 * e.high});
            largest = std::max(largest, line.points.back().high);
            sizes.insert(p.point.ranks);
        }
        if (line.points.size() > (rate ? 0U : 1U)) {  // of a base alone there is no efficiency to see
            figure.lines.push_back(std::move(line));
        }
    }
    const Scale scale = rate ? scale_for(largest) : Scale{1, ""};
    for (Line& line : figure.lines) {
        for (LinePoint& p : line.points) {
            p = {p.x, p.y * scale.factor, p.low * scale.factor, p.high * scale.factor};
        }
    }
    figure.id = fmt::format("{}{}-{}", prefix, weak ? "weak" : "strong", rate ? "throughput" : "efficiency");
    figure.title = fmt::format(
        "{} of the {} study, {}", rate ? "Throughput per " + std::string(group.unit()) : "Efficiency", name_of(kind),
        weak ? "fixed tokens per " + std::string(group.unit()) : std::string("fixed global batch"));
    figure.x_label = std::string(group.unit()) + "s";
    figure.y_label =
        rate ? fmt::format("{}tokens/s per {}", scale.prefix, group.unit()) : std::string("efficiency [%]");
    figure.log_x = true;
    figure.y_low = 0;
    figure.y_high =
        largest > 0 ? std::optional(1.08 * std::max(largest * scale.factor, rate ? 0.0 : 100.0)) : std::nullopt;
    figure.x_ticks = ticks_of(sizes);
    figure.note = "Bars: lowest and highest repeat. " + left_out(group, kind) + beyond(figure.lines.size());
    return figure;
}

BarFigure cause_figure(const StudyGroup& group, StudyKind kind, const std::string& prefix) {
    constexpr std::size_t most_bars = 60;
    BarFigure figure;
    double largest = 0;
    std::size_t bars_seen = 0;
    for (const Series& series : group.series) {
        BarGroup bars{series.label, {}};
        for (const SeriesPoint& p : series.points) {
            if (series.kind != kind || !p.counts() || p.point.causes.empty() || p.point.tokens_per_step == 0) {
                continue;
            }
            if (++bars_seen > most_bars) {
                continue;
            }
            const StepCauses mean = mean_causes(p.point);
            std::vector<double> values = cause_values(mean);
            for (double& value : values) {
                value *= static_cast<double>(p.point.ranks) / static_cast<double>(p.point.tokens_per_step);
            }
            largest = std::max(
                largest, mean.step * static_cast<double>(p.point.ranks) / static_cast<double>(p.point.tokens_per_step));
            bars.rows.push_back({fmt::format("{}", p.point.ranks), std::move(values)});
        }
        if (!bars.rows.empty()) {
            figure.groups.push_back(std::move(bars));
        }
    }
    const bool micro = largest < 2e-3;
    for (BarGroup& bars : figure.groups) {
        for (BarRow& row : bars.rows) {
            for (double& value : row.values) {
                value *= micro ? 1e6 : 1e3;
            }
        }
    }
    figure.id = fmt::format("{}{}-causes", prefix, name_of(kind));
    figure.title = fmt::format("Loss by cause, {} study, by number of {}s", name_of(kind), group.unit());
    figure.x_label = fmt::format("{} time per token [{}]", group.unit(), micro ? "\u00b5s" : "ms");
    figure.parts = cause_names();
    figure.note =
        "Mean over the ranks. A bar as long as that of the smallest run is an efficiency of 100 %. " +
        left_out(group, kind) +
        (bars_seen > most_bars ? fmt::format(" The first {} of {} bars are drawn.", most_bars, bars_seen) : "");
    return figure;
}

LineFigure size_figure(const Study& study) {
    using Key = std::tuple<std::string, std::string, std::string, i64>;  // device, kind, layout, ranks
    std::map<Key, std::map<i64, double>> lines;
    for (const StudyGroup& group : study.groups) {
        for (const Series& series : group.series) {
            for (const SeriesPoint& p : series.points) {
                if (p.counts()) {
                    const Key key{group.sample.device, std::string(name_of(series.kind)), p.point.layout,
                                  p.point.ranks};
                    lines[key][p.point.parameters] = tflops_per_rank(p.point, p.point.model_flops_per_token);
                }
            }
        }
    }
    LineFigure figure;
    double largest = 0;
    std::set<i64> sizes;
    for (const auto& [key, points] : lines) {
        if (points.size() < 2) {
            continue;
        }
        const auto& [device, kind, layout, ranks] = key;
        Line line{fmt::format("{}, {} ranks, {}{}", layout, ranks, kind, device == "cpu" ? "" : ", " + device), {}};
        for (const auto& [parameters, rate] : points) {
            line.points.push_back({static_cast<double>(parameters) / 1e6, rate});
            sizes.insert(parameters);
            largest = std::max(largest, rate);
        }
        figure.lines.push_back(std::move(line));
    }
    figure.id = "sizes-chart";
    figure.title = "Rate of a rank against the size of the model";
    figure.x_label = "million parameters";
    figure.y_label = "model TFLOP/s per rank";
    figure.log_x = true;
    figure.y_low = 0;
    figure.y_high = largest > 0 ? std::optional(1.08 * largest) : std::nullopt;
    for (const double size : ticks_of(sizes)) {
        const double million = size / 1e6;
        const double unit = std::pow(10, std::floor(std::log10(million)) - 2);
        figure.x_ticks.push_back(std::round(million / unit) * unit);  // three digits
    }
    figure.note = "Causal count, without recomputation." + beyond(figure.lines.size());
    return figure;
}

}  // namespace ogrom
