// Comes in: curves with efficiencies. Goes out: tables of one group. Next: report/study_summary.cpp
#include "src/report/study_tables.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <numeric>

#include "src/base/error.h"

namespace ogrom {
namespace {

using Kind = Column::Kind;

void each_point(const StudyGroup& group, const std::function<void(const Series&, const SeriesPoint&)>& visit) {
    for (const Series& series : group.series) {
        for (const SeriesPoint& p : series.points) {
            if (p.measured()) {
                visit(series, p);
            }
        }
    }
}

std::vector<Column> point_columns() {
    return {{"layout", "layout", "", Kind::text},
            {"study_kind", "study", "", Kind::text},
            {"ranks", "ranks", "", Kind::integer}};
}

std::vector<Cell> point_cells(const Series& series, const SeriesPoint& p) {
    return {text(series.label), std::string(name_of(series.kind)), p.point.ranks};
}

Table point_table(std::string id, std::string caption, std::vector<Column> more) {
    Table table{std::move(id), std::move(caption), point_columns(), {}, 3};
    table.columns.insert(table.columns.end(), more.begin(), more.end());
    return table;
}

void add_row(Table& table, const Series& series, const SeriesPoint& p, std::vector<Cell> more) {
    std::vector<Cell> cells = point_cells(series, p);
    cells.insert(cells.end(), more.begin(), more.end());
    table.add(std::move(cells));
}

std::string remark(const SeriesPoint& p) {
    std::string words = p.point.oversubscribed ? "oversubscribed" : "";
    if (p.counts() && p.point.ranks == p.efficiency.base_ranks) {
        words = "base";
    }
    if (p.point.skipped_steps > 0) {
        words += fmt::format("{}{} steps skipped", words.empty() ? "" : "; ", p.point.skipped_steps);
    }
    return words;
}

}  // namespace

Table throughput_table(const StudyGroup& group, StudyKind kind, const std::string& prefix) {
    const std::string unit = group.unit();
    const bool weak = kind == StudyKind::weak;
    Table table{prefix + (weak ? "weak" : "strong"),
                fmt::format("{} study ({}): throughput and efficiency.", weak ? "Weak" : "Strong",
                            weak ? "fixed tokens per " + unit : std::string("fixed global batch")),
                {{"layout", "layout", "", Kind::text},
                 {"ranks", "ranks", "", Kind::integer},
                 {"tokens_per_s", "throughput", "tokens/s", Kind::real},
                 {"tokens_per_s_low", "lowest", "tokens/s", Kind::real},
                 {"tokens_per_s_high", "highest", "tokens/s", Kind::real},
                 {"tokens_per_s_per_rank", "per " + unit, "tokens/s", Kind::real},
                 {"efficiency_percent", "efficiency", "%", Kind::real, 3},
                 {"efficiency_low_percent", "lowest", "%", Kind::real, 3},
                 {"efficiency_high_percent", "highest", "%", Kind::real, 3},
                 {"base_ranks", "base", "ranks", Kind::integer},
                 {"repeats", "repeats", "", Kind::integer},
                 {"step_ms", "step", "ms", Kind::real},
                 {"tokens_per_rank_per_step", "per step", "tokens/" + unit, Kind::real},
                 {"largest_loss", "largest loss", "", Kind::text},
                 {"remark", "remark", "", Kind::text}},
                {},
                2,
                fmt::format("Medians of the repeats' medians, with the lowest and highest repeat. Efficiency is the "
                            "throughput per {} against that of the smallest run of the same layout that is not "
                            "oversubscribed (the base); its range sets the worst repeat against the best of the base, "
                            "and the best against the worst. The largest loss is the longest part of a step that is "
                            "not compute.",
                            unit)};
    each_point(group, [&](const Series& series, const SeriesPoint& p) {
        if (series.kind != kind) {
            return;
        }
        const StudyPoint& q = p.point;
        const auto ranks = static_cast<double>(q.ranks);
        const Efficiency& e = p.efficiency;
        table.add({text(series.label), q.ranks, real(q.tokens_per_s.median), real(q.tokens_per_s.low),
                   real(q.tokens_per_s.high), real(q.tokens_per_s.median / ranks), real(100 * e.value),
                   real(100 * e.low), real(100 * e.high), e.base_ranks > 0 ? Cell(e.base_ranks) : Cell(),
                   static_cast<i64>(q.step_s.size()), real(1e3 * q.step_median_s.median),
                   real(static_cast<double>(q.tokens_per_step) / ranks), largest_loss(q), remark(p)});
    });
    return table;
}

Table flops_table(const StudyGroup& group, const std::string& prefix) {
    Table table = point_table(prefix + "flops", fmt::format("Floating point rate of one {}.", group.unit()),
                              {{"model_tflops", "model, causal", "TFLOP/s", Kind::real},
                               {"model_square_tflops", "model, square", "TFLOP/s", Kind::real},
                               {"hardware_tflops", "hardware", "TFLOP/s", Kind::real},
                               {"matrix_tflops", "matrix rate", "TFLOP/s", Kind::real},
                               {"of_matrix_rate_percent", "ratio", "%", Kind::real, 3},
                               {"recompute", "recomputed", "", Kind::text}});
    table.note = fmt::format(
        "Model FLOPs leave recomputation out: causal counts the T(T+1)/2 pairs of tokens that "
        "attention needs, square all T x T (Megatron's count). Hardware FLOPs add what is "
        "computed again. The matrix rate is measured on the {} itself; the ratio to it takes the "
        "causal count.",
        group.unit());
    each_point(group, [&](const Series& series, const SeriesPoint& p) {
        const StudyPoint& q = p.point;
        const double model = tflops_per_rank(q, q.model_flops_per_token);
        add_row(table, series, p,
                {real(model), real(tflops_per_rank(q, q.model_flops_square_per_token)),
                 real(tflops_per_rank(q, q.hardware_flops_per_token)), real(q.matmul_rate / 1e12),
                 q.matmul_rate > 0 ? real(100 * model * 1e12 / q.matmul_rate) : Cell(), text(q.recompute)});
    });
    return table;
}

namespace {

std::vector<Column> cause_columns(const std::string& who) {
    return {{"who", who, "", Kind::text},
            {"compute_ms", "compute", "ms", Kind::real},
            {"tensor_comm_ms", "tensor comm.", "ms", Kind::real},
            {"data_comm_ms", "data comm.", "ms", Kind::real},
            {"pipeline_comm_ms", "pipeline comm.", "ms", Kind::real},
            {"bubble_ms", "bubble", "ms", Kind::real},
            {"optimizer_ms", "optimizer", "ms", Kind::real},
            {"offload_ms", "offload", "ms", Kind::real},
            {"data_wait_ms", "data wait", "ms", Kind::real},
            {"other_ms", "other", "ms", Kind::real},
            {"step_ms", "step", "ms", Kind::real},
            {"other_percent", "other", "% of step", Kind::real, 3}};
}

std::vector<Cell> cause_cells(const std::string& who, const StepCauses& causes) {
    std::vector<Cell> cells = {who};
    for (const double value : cause_values(causes)) {
        cells.push_back(real(1e3 * value));
    }
    cells.push_back(real(1e3 * causes.step));
    cells.push_back(causes.step > 0 ? real(100 * causes.other / causes.step) : Cell());
    return cells;
}

}  // namespace

Table causes_table(const StudyGroup& group, const std::string& prefix) {
    Table table =
        point_table(prefix + "causes", "Loss by cause: where the time of a step went.", cause_columns("rank"));
    table.note =
        "Means over the measured steps; the causes sum to the step. Communication is what was not hidden behind "
        "computation. The slowest rank is the one that worked longest (step without communication and bubble).";
    each_point(group, [&](const Series& series, const SeriesPoint& p) {
        if (p.point.causes.empty()) {
            return;
        }
        add_row(table, series, p, cause_cells("mean of all", mean_causes(p.point)));
        if (p.point.causes.size() > 1) {
            const std::size_t slowest = slowest_rank(p.point);
            add_row(table, series, p, cause_cells(fmt::format("slowest: {}", slowest), p.point.causes[slowest]));
        }
    });
    return table;
}

Table ranks_table(const StudyGroup& group, const std::string& prefix) {
    constexpr std::size_t most = 16;
    Table table = point_table(prefix + "ranks", "Loss by cause of each rank, the one that worked longest first.",
                              cause_columns("rank"));
    table.note = fmt::format("Of more than {0} ranks the first {0}; the file of the point has all.", most);
    each_point(group, [&](const Series& series, const SeriesPoint& p) {
        const std::vector<StepCauses>& causes = p.point.causes;
        std::vector<std::size_t> order(causes.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return work_of(causes[a]) > work_of(causes[b]); });
        order.resize(std::min(order.size(), most));
        for (const std::size_t rank : order) {
            add_row(table, series, p, cause_cells(fmt::format("{}", rank), causes[rank]));
        }
    });
    return table;
}

namespace {

std::string tier_key(const std::string& tier, i64 place) {
    const bool plain = !tier.empty() && tier.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
    return plain && tier != "total" ? tier + "_mib" : fmt::format("tier{}_mib", place);
}

}  // namespace

Table memory_table(const StudyGroup& group, const std::string& prefix) {
    std::map<std::string, i64> tiers;
    each_point(group, [&](const Series&, const SeriesPoint& p) {
        for (const StudyLine& line : p.point.ledger) {
            tiers.emplace(line.tier, 0);
        }
    });
    std::vector<Column> columns = {{"total_mib", "in all", "MiB", Kind::real}};
    for (auto& [tier, place] : tiers) {
        place = static_cast<i64>(columns.size());
        columns.push_back({tier_key(tier, place), tier, "MiB", Kind::real});
    }
    Table table = point_table(prefix + "memory", "Memory of the rank that takes most, by the ledger.", columns);
    each_point(group, [&](const Series& series, const SeriesPoint& p) {
        std::vector<double> sums(columns.size(), 0);
        for (const StudyLine& line : p.point.ledger) {
            const double mib = static_cast<double>(line.bytes) / (1 << 20);
            sums[0] += mib;
            sums[static_cast<std::size_t>(tiers[line.tier])] += mib;
        }
        add_row(table, series, p, {sums.begin(), sums.end()});
    });
    return table;
}

Table ledger_table(const StudyGroup& group, const std::string& prefix) {
    Table table = point_table(
        prefix + "ledger", "Memory ledger, line by line.",
        {{"line", "line", "", Kind::text}, {"tier", "tier", "", Kind::text}, {"bytes", "size", "B", Kind::integer}});
    each_point(group, [&](const Series& series, const SeriesPoint& p) {
        for (const StudyLine& line : p.point.ledger) {
            add_row(table, series, p, {text(line.name), text(line.tier), line.bytes});
        }
    });
    return table;
}

Table traffic_table(const StudyGroup& group, const std::string& prefix) {
    Table table = point_table(prefix + "traffic", "Bytes sent in a step, by axis of the mesh.",
                              {{"axis", "axis", "", Kind::text},
                               {"mib_per_step", "all ranks", "MiB", Kind::real},
                               {"mib_per_rank", fmt::format("per {}", group.unit()), "MiB", Kind::real},
                               {"bytes_per_token", "per token", "B", Kind::real}});
    each_point(group, [&](const Series& series, const SeriesPoint& p) {
        for (const StudyTraffic& traffic : p.point.traffic) {
            const auto bytes = static_cast<double>(traffic.bytes);
            add_row(
                table, series, p,
                {text(traffic.axis), real(bytes / (1 << 20)),
                 real(bytes / (1 << 20) / static_cast<double>(p.point.ranks)),
                 p.point.tokens_per_step > 0 ? real(bytes / static_cast<double>(p.point.tokens_per_step)) : Cell()});
        }
    });
    return table;
}

Table predicted_table(const StudyGroup& group, const std::string& prefix) {
    Table table = point_table(prefix + "predicted", "Predicted beside measured.",
                              {{"predicted_ms", "step, predicted", "ms", Kind::real},
                               {"measured_ms", "step, measured", "ms", Kind::real},
                               {"error_percent", "predicted / measured - 1", "%", Kind::real, 3}});
    each_point(group, [&](const Series& series, const SeriesPoint& p) {
        const double predicted = p.point.predicted_step_s, measured = p.point.step_median_s.median;
        if (std::isfinite(predicted)) {
            add_row(table, series, p,
                    {real(1e3 * predicted), real(1e3 * measured), real(100 * (predicted / measured - 1))});
        }
    });
    return table;
}

Table refused_table(const StudyGroup& group, const std::string& prefix) {
    Table table = point_table(prefix + "refused", "Layouts that cannot run at a size, and why.",
                              {{"reason", "reason", "", Kind::text}});
    for (const Series& series : group.series) {
        for (const SeriesPoint& p : series.points) {
            if (!p.measured()) {
                add_row(table, series, p, {text(p.point.refused)});
            }
        }
    }
    return table;
}

}  // namespace ogrom
