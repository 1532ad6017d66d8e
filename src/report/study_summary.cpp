// Comes in: the whole study. Goes out: tables over all its groups. Next: report/study_page.cpp
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>

#include "src/report/study_tables.h"

namespace ogrom {
namespace {

using Kind = Column::Kind;

std::vector<Column> what_columns() {
    return {{"study", "study", "", Kind::text},
            {"kind", "kind", "", Kind::text},
            {"layout", "layout", "", Kind::text},
            {"ranks", "ranks", "", Kind::integer},
            {"oversubscribed", "oversubscribed", "", Kind::text},
            {"refused", "refused", "", Kind::text},
            {"model", "model", "", Kind::text},
            {"parameters", "parameters", "", Kind::integer},
            {"sequence", "sequence", "tokens", Kind::integer},
            {"weights_dtype", "weights", "", Kind::text},
            {"device", "device", "", Kind::text},
            {"nodes", "nodes", "", Kind::integer},
            {"threads_per_rank", "threads per rank", "", Kind::integer},
            {"axis", "axis that grows", "", Kind::text},
            {"pipeline", "pp", "", Kind::integer},
            {"data", "dp", "", Kind::integer},
            {"tensor", "tp", "", Kind::integer},
            {"zero", "ZeRO", "", Kind::integer},
            {"schedule", "schedule", "", Kind::text},
            {"recompute", "recomputed", "", Kind::text},
            {"micro_batch", "micro-batch", "sequences", Kind::integer},
            {"accumulation", "accumulation", "", Kind::integer},
            {"global_batch", "global batch", "sequences", Kind::integer},
            {"tokens_per_step", "per step", "tokens", Kind::integer},
            {"tokens_per_rank_per_step", "per rank and step", "tokens", Kind::real}};
}

std::vector<Column> figure_columns() {
    return {{"repeats", "repeats", "", Kind::integer},
            {"warmup_steps", "warm-up", "steps", Kind::integer},
            {"steps", "measured per repeat", "steps", Kind::integer},
            {"skipped_steps", "skipped", "steps", Kind::integer},
            {"step_s", "step", "s", Kind::real},
            {"step_s_low", "lowest", "s", Kind::real},
            {"step_s_high", "highest", "s", Kind::real},
            {"tokens_per_s", "throughput", "tokens/s", Kind::real},
            {"tokens_per_s_low", "lowest", "tokens/s", Kind::real},
            {"tokens_per_s_high", "highest", "tokens/s", Kind::real},
            {"tokens_per_s_per_rank", "per rank", "tokens/s", Kind::real},
            {"efficiency", "efficiency", "1", Kind::real},
            {"efficiency_low", "lowest", "1", Kind::real},
            {"efficiency_high", "highest", "1", Kind::real},
            {"efficiency_base_ranks", "base", "ranks", Kind::integer},
            {"model_tflops_per_rank", "model, causal", "TFLOP/s", Kind::real},
            {"model_square_tflops_per_rank", "model, square", "TFLOP/s", Kind::real},
            {"hardware_tflops_per_rank", "hardware", "TFLOP/s", Kind::real},
            {"matrix_tflops_per_rank", "matrix rate", "TFLOP/s", Kind::real},
            {"compute_s", "compute", "s", Kind::real},
            {"tensor_comm_s", "tensor comm.", "s", Kind::real},
            {"data_comm_s", "data comm.", "s", Kind::real},
            {"pipeline_comm_s", "pipeline comm.", "s", Kind::real},
            {"bubble_s", "bubble", "s", Kind::real},
            {"optimizer_s", "optimizer", "s", Kind::real},
            {"offload_s", "offload", "s", Kind::real},
            {"data_wait_s", "data wait", "s", Kind::real},
            {"other_s", "other", "s", Kind::real},
            {"causes_sum_s", "sum of causes", "s", Kind::real},
            {"ledger_bytes", "memory of a rank", "B", Kind::integer},
            {"sent_bytes_per_step", "sent per step", "B", Kind::integer},
            {"predicted_step_s", "predicted step", "s", Kind::real}};
}

std::vector<Cell> what_cells(const Series& series, const SeriesPoint& point) {
    const StudyPoint& p = point.point;
    return {text(p.study),
            std::string(name_of(p.kind)),
            text(series.label),
            p.ranks,
            std::string(p.oversubscribed ? "yes" : "no"),
            text(p.refused),
            text(p.model),
            p.parameters,
            p.sequence,
            text(p.weights_dtype),
            text(p.device),
            p.nodes,
            p.threads_per_rank,
            text(p.axis),
            p.pipeline,
            p.data,
            p.tensor,
            p.zero,
            text(p.schedule),
            text(p.recompute),
            p.micro_batch,
            p.accumulation,
            p.global_batch,
            p.tokens_per_step,
            real(static_cast<double>(p.tokens_per_step) / static_cast<double>(p.ranks))};
}

std::vector<Cell> figure_cells(const SeriesPoint& point) {
    const StudyPoint& p = point.point;
    const Efficiency& e = point.efficiency;
    i64 memory = 0, sent = 0;
    for (const StudyLine& line : p.ledger) {
        memory += line.bytes;
    }
    for (const StudyTraffic& traffic : p.traffic) {
        sent += traffic.bytes;
    }
    std::vector<Cell> cells = {static_cast<i64>(p.step_s.size()),
                               p.warmup_steps,
                               p.steps,
                               p.skipped_steps,
                               real(p.step_median_s.median),
                               real(p.step_median_s.low),
                               real(p.step_median_s.high),
                               real(p.tokens_per_s.median),
                               real(p.tokens_per_s.low),
                               real(p.tokens_per_s.high),
                               real(p.tokens_per_s.median / static_cast<double>(p.ranks)),
                               real(e.value),
                               real(e.low),
                               real(e.high),
                               e.base_ranks > 0 ? Cell(e.base_ranks) : Cell(),
                               real(tflops_per_rank(p, p.model_flops_per_token)),
                               real(tflops_per_rank(p, p.model_flops_square_per_token)),
                               real(tflops_per_rank(p, p.hardware_flops_per_token)),
                               real(p.matmul_rate / 1e12)};
    const StepCauses mean = mean_causes(p);
    for (const double value : cause_values(mean)) {
        cells.push_back(p.causes.empty() ? Cell() : real(value));
    }
    cells.push_back(p.causes.empty() ? Cell() : real(mean.sum()));
    cells.emplace_back(memory);
    cells.emplace_back(sent);
    cells.push_back(real(p.predicted_step_s));
    return cells;
}

// The largest point of a curve with an efficiency against another; null: none has.
const SeriesPoint* largest(const Series& series) {
    const SeriesPoint* found = nullptr;
    for (const SeriesPoint& p : series.points) {
        if (p.efficiency.base_ranks > 0 && p.point.ranks > p.efficiency.base_ranks) {
            found = &p;
        }
    }
    return found;
}

}  // namespace

Table points_table(const Study& study) {
    Table table{"points", "Every point with all its figures (report.csv).", what_columns(), {}, 4};
    const std::size_t figures = figure_columns().size();
    for (const Column& column : figure_columns()) {
        table.columns.push_back(column);
    }
    for (const StudyGroup& group : study.groups) {
        for (const Series& series : group.series) {
            for (const SeriesPoint& p : series.points) {
                std::vector<Cell> cells = what_cells(series, p);
                const std::vector<Cell> more = p.measured() ? figure_cells(p) : std::vector<Cell>(figures);
                cells.insert(cells.end(), more.begin(), more.end());
                table.add(std::move(cells));
            }
        }
    }
    return table;
}

Table overview_table(const Study& study) {
    Table table{"overview",
                "Each layout at its largest size that is not oversubscribed, against its smallest.",
                {{"model", "model", "", Kind::text},
                 {"kind", "study", "", Kind::text},
                 {"layout", "layout", "", Kind::text},
                 {"base_ranks", "base", "ranks", Kind::integer},
                 {"ranks", "largest", "ranks", Kind::integer},
                 {"tokens_per_s", "throughput", "tokens/s", Kind::real},
                 {"speedup", "speed-up", "x", Kind::real, 3},
                 {"efficiency_percent", "efficiency", "%", Kind::real, 3},
                 {"efficiency_low_percent", "lowest", "%", Kind::real, 3},
                 {"efficiency_high_percent", "highest", "%", Kind::real, 3},
                 {"model_tflops", "model rate", "TFLOP/s", Kind::real},
                 {"largest_loss", "largest loss", "", Kind::text}},
                {},
                3,
                "The model rate is that of one rank, by the causal count and without recomputation."};
    for (const StudyGroup& group : study.groups) {
        for (const Series& series : group.series) {
            const SeriesPoint* const p = largest(series);
            if (p == nullptr) {
                continue;
            }
            const StudyPoint& q = p->point;
            const double growth = static_cast<double>(q.ranks) / static_cast<double>(series.base_ranks);
            table.add({text(q.model), std::string(name_of(series.kind)), text(series.label), series.base_ranks, q.ranks,
                       real(q.tokens_per_s.median), real(growth * p->efficiency.value), real(100 * p->efficiency.value),
                       real(100 * p->efficiency.low), real(100 * p->efficiency.high),
                       real(tflops_per_rank(q, q.model_flops_per_token)), largest_loss(q)});
        }
    }
    return table;
}

Table sizes_table(const Study& study) {
    Table table{"sizes",
                "Rate of a rank against the size of the model.",
                {{"kind", "study", "", Kind::text},
                 {"layout", "layout", "", Kind::text},
                 {"ranks", "ranks", "", Kind::integer},
                 {"device", "device", "", Kind::text},
                 {"model", "model", "", Kind::text},
                 {"parameters", "parameters", "", Kind::integer},
                 {"tokens_per_s_per_rank", "throughput of a rank", "tokens/s", Kind::real},
                 {"model_tflops", "model, causal", "TFLOP/s", Kind::real},
                 {"hardware_tflops", "hardware", "TFLOP/s", Kind::real}},
                {},
                5};
    std::map<std::tuple<std::string, StudyKind, std::string, i64>, std::set<i64>> sizes;
    const auto visit = [&](const auto& use) {
        for (const StudyGroup& group : study.groups) {
            for (const Series& series : group.series) {
                for (const SeriesPoint& p : series.points) {
                    if (p.counts()) {
                        use(p.point, sizes[{p.point.device, series.kind, p.point.layout, p.point.ranks}]);
                    }
                }
            }
        }
    };
    visit([](const StudyPoint& q, std::set<i64>& of_curve) { of_curve.insert(q.parameters); });
    visit([&](const StudyPoint& q, const std::set<i64>& of_curve) {
        if (of_curve.size() > 1) {
            table.add({std::string(name_of(q.kind)), text(q.layout), q.ranks, text(q.device), text(q.model),
                       q.parameters, real(q.tokens_per_s.median / static_cast<double>(q.ranks)),
                       real(tflops_per_rank(q, q.model_flops_per_token)),
                       real(tflops_per_rank(q, q.hardware_flops_per_token))});
        }
    });
    std::stable_sort(table.rows.begin(), table.rows.end(), [](const auto& a, const auto& b) {
        const bool same = std::equal(a.begin(), a.begin() + 4, b.begin());
        return same ? a[5] < b[5] : std::lexicographical_compare(a.begin(), a.begin() + 4, b.begin(), b.begin() + 4);
    });
    return table;
}

}  // namespace ogrom
