// Comes in: a run's figures. Goes out: its report as a document. Next: report/document.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "src/base/text.h"
#include "src/base/timer.h"
#include "src/base/version.h"
#include "src/report/run.h"

namespace ogrom {
namespace {

using Kind = Column::Kind;
constexpr std::size_t most_points = 500;

struct Facts {
    std::vector<double> rates, steps;  // sorted; without the first step
    double best_valid = std::numeric_limits<double>::quiet_NaN(), last_valid = best_valid;
    i64 best_valid_step = 0, skipped = 0, tokens = 0;
    double time_s = 0;
};

double quantile(const std::vector<double>& sorted, double q) {
    if (sorted.empty()) {
        return std::numeric_limits<double>::quiet_NaN();
    }
    return sorted[static_cast<std::size_t>(std::lround(q * static_cast<double>(sorted.size() - 1)))];
}

Facts facts_of(const std::vector<StepMetrics>& rows) {
    Facts facts;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const StepMetrics& row = rows[i];
        facts.skipped += row.skipped ? 1 : 0;
        facts.tokens += row.tokens;
        facts.time_s += std::isfinite(row.step_s) ? row.step_s : 0;
        if (row.valid_loss && std::isfinite(*row.valid_loss)) {
            facts.last_valid = *row.valid_loss;
            if (!(facts.best_valid <= *row.valid_loss)) {
                facts.best_valid = *row.valid_loss;
                facts.best_valid_step = row.step;
            }
        }
        if (i > 0 && !row.skipped && std::isfinite(row.step_s)) {
            facts.rates.push_back(row.tokens_per_s);
            facts.steps.push_back(row.step_s);
        }
    }
    std::sort(facts.rates.begin(), facts.rates.end());
    std::sort(facts.steps.begin(), facts.steps.end());
    return facts;
}

Table summary_table(const RunRecord& run) {
    const Facts f = facts_of(run.rows);
    const StepMetrics& last = run.rows.back();
    Table table{
        "summary",
        "The run in figures. Rates and step times are medians without the first step.",
        {{"figure", "figure", "", Kind::text}, {"value", "value", "", Kind::real, 6}, {"unit", "unit", "", Kind::text}},
        {}};
    const auto add = [&](const char* name, double value, const char* unit) {
        table.add({std::string(name), real(value), std::string(unit)});
    };
    add("steps done", static_cast<double>(last.step), "steps");
    add("steps skipped as not finite", static_cast<double>(f.skipped), "steps");
    add("tokens", static_cast<double>(f.tokens), "tokens");
    add("time within steps", f.time_s, "s");
    add("loss of the last step", last.loss, "nat per token");
    add("best validation loss", f.best_valid, "nat per token");
    add("its step", f.best_valid_step > 0 ? static_cast<double>(f.best_valid_step) : std::nan(""), "step");
    add("last validation loss", f.last_valid, "nat per token");
    add("throughput", quantile(f.rates, 0.5), "tokens/s");
    add("throughput, 5 % of steps are below", quantile(f.rates, 0.05), "tokens/s");
    add("step", 1e3 * quantile(f.steps, 0.5), "ms");
    add("step, 5 % are above", 1e3 * quantile(f.steps, 0.95), "ms");
    add("longest step", 1e3 * quantile(f.steps, 1), "ms");
    add("model rate of a rank (causal), last step", last.model_tflops, "TFLOP/s");
    add("model rate of a rank (square), last step", last.model_tflops_square, "TFLOP/s");
    add("hardware rate of a rank, last step", last.hardware_tflops, "TFLOP/s");
    add("model rate (causal) of the measured matrix rate", 100 * last.fraction_of_sgemm, "%");
    add("memory of rank 0, peak", static_cast<double>(last.memory_bytes) / (1 << 20), "MiB");
    add("sent by rank 0 in the last step", static_cast<double>(last.bytes_sent) / (1 << 20), "MiB");
    return table;
}

Table steps_table(const Thinned& thin) {
    Table table{"steps",
                thin.steps_each == 1
                    ? std::string("Every step.")
                    : fmt::format("Each row is the mean of {} steps, the step its last; metrics.csv of "
                                  "the run has every step.",
                                  thin.steps_each),
                {{"step", "step", "", Kind::integer},
                 {"loss", "loss", "nat per token", Kind::real, 5},
                 {"gradient_norm", "gradient norm", "", Kind::real},
                 {"lr", "learning rate", "", Kind::real},
                 {"tokens_per_s", "throughput", "tokens/s", Kind::real},
                 {"step_ms", "step", "ms", Kind::real},
                 {"model_tflops", "model rate of a rank", "TFLOP/s", Kind::real},
                 {"memory_mib", "memory of rank 0", "MiB", Kind::real}},
                {}};
    for (const StepMetrics& row : thin.rows) {
        table.add({row.step, real(row.loss), real(row.gradient_norm), real(row.lr), real(row.tokens_per_s),
                   real(1e3 * row.step_s), real(row.model_tflops),
                   real(static_cast<double>(row.memory_bytes) / (1 << 20))});
    }
    return table;
}

Table validation_table(const std::vector<StepMetrics>& rows) {
    Table table{"validation",
                "Validation loss.",
                {{"step", "step", "", Kind::integer}, {"valid_loss", "loss", "nat per token", Kind::real, 5}},
                {}};
    for (const StepMetrics& row : rows) {
        if (row.valid_loss) {
            table.add({row.step, real(*row.valid_loss)});
        }
    }
    return table;
}

Table longest_table(const std::vector<StepMetrics>& rows) {
    Table table{"longest-steps",
                "The longest steps, without the first.",
                {{"step", "step", "", Kind::integer},
                 {"step_ms", "time", "ms", Kind::real},
                 {"data_wait_ms", "wait for data", "ms", Kind::real},
                 {"exposed_comm_ms", "exposed gradient comm., rank 0", "ms", Kind::real},
                 {"tokens_per_s", "throughput", "tokens/s", Kind::real}},
                {}};
    std::vector<StepMetrics> sorted(rows.begin() + 1, rows.end());
    const auto most = static_cast<std::ptrdiff_t>(std::min<std::size_t>(8, sorted.size()));
    std::partial_sort(sorted.begin(), sorted.begin() + most, sorted.end(),
                      [](const StepMetrics& a, const StepMetrics& b) { return a.step_s > b.step_s; });
    for (const StepMetrics& row : std::span(sorted).first(static_cast<std::size_t>(most))) {
        table.add({row.step, real(1e3 * row.step_s), real(1e3 * row.data_wait_s), real(1e3 * row.exposed_comm_s),
                   real(row.tokens_per_s)});
    }
    return table;
}

Table histogram_table(const HistogramFigure& figure) {
    Table table{"step-histogram",
                "Steps by their time.",
                {{"from_ms", "from", "ms", Kind::real},
                 {"to_ms", "to", "ms", Kind::real},
                 {"steps", "steps", "", Kind::integer}},
                {}};
    for (std::size_t i = 0; i < figure.counts.size(); ++i) {
        table.add({real(figure.edges[i]), real(figure.edges[i + 1]), figure.counts[i]});
    }
    return table;
}

Table ranks_table(std::vector<RankTimes> ranks) {
    const bool known =
        std::all_of(ranks.begin(), ranks.end(), [](const RankTimes& t) { return std::isfinite(t.work_s()); });
    std::stable_sort(ranks.begin(), ranks.end(), [&](const RankTimes& a, const RankTimes& b) {
        return known ? a.work_s() > b.work_s() : a.step_s > b.step_s;
    });
    const std::size_t most = 32;
    std::string note = fmt::format(
        "Means over steps {} to {}. Work is the step without the time in calls that waited for other ranks.",
        ranks.front().first_step, ranks.front().last_step);
    note += known ? "" : " On a GPU the device waits and the host cannot tell, so work has no figure.";
    note += ranks.size() > most ? fmt::format(" The first {} of {}; ranks.csv of the run has all.", most, ranks.size())
                                : "";
    Table table{"ranks",
                "Ranks, the slowest first.",
                {{"rank", "rank", "", Kind::integer},
                 {"host", "host", "", Kind::text},
                 {"work_ms", "work", "ms", Kind::real},
                 {"waited_ms", "waited for ranks", "ms", Kind::real},
                 {"data_wait_ms", "waited for data", "ms", Kind::real},
                 {"step_ms", "step", "ms", Kind::real},
                 {"longest_work_ms", "longest work", "ms", Kind::real},
                 {"longest_step", "in step", "", Kind::integer}},
                {}};
    table.note = note;
    ranks.resize(std::min(ranks.size(), most));
    for (const RankTimes& t : ranks) {
        table.add({t.rank, text(t.host), real(1e3 * t.work_s()), real(1e3 * t.waited_s), real(1e3 * t.data_wait_s),
                   real(1e3 * t.step_s), real(1e3 * t.longest_work_s),
                   t.longest_step > 0 ? Cell(t.longest_step) : Cell()});
    }
    return table;
}

Table events_table(const std::vector<RunEvent>& events) {
    Table table{"events",
                "Events.",
                {{"time", "time (UTC)", "", Kind::text},
                 {"rank", "rank", "", Kind::integer},
                 {"host", "host", "", Kind::text},
                 {"step", "step", "", Kind::integer},
                 {"phase", "phase", "", Kind::text},
                 {"code", "code", "", Kind::integer},
                 {"text", "text", "", Kind::text}},
                {}};
    for (const RunEvent& e : events) {
        table.add({text(e.time), e.rank, text(e.host), e.step, text(e.phase), e.code, text(e.text)});
    }
    return table;
}

LineFigure step_figure(const char* id, const char* title, const std::string& y_label, const Thinned& thin, double scale,
                       double StepMetrics::*field) {
    LineFigure figure;
    figure.id = id;
    figure.title = title;
    figure.x_label = "optimizer step";
    figure.y_label = y_label;
    figure.style = LineStyle::plain;
    Line line{title, {}};
    for (const StepMetrics& row : thin.rows) {
        line.points.push_back({static_cast<double>(row.step), row.*field * scale});
    }
    figure.lines.push_back(std::move(line));
    figure.note = thin.steps_each > 1 ? fmt::format("Each point is the mean of {} steps.", thin.steps_each) : "";
    return figure;
}

LineFigure loss_figure(const RunRecord& run, const Thinned& thin) {
    LineFigure figure = step_figure("loss", "Loss", "loss [nat per token]", thin, 1, &StepMetrics::loss);
    figure.lines.front().name = "training";
    Line valid{"validation", {}};
    for (const StepMetrics& row : run.rows) {
        if (row.valid_loss) {
            valid.points.push_back({static_cast<double>(row.step), *row.valid_loss});
        }
    }
    figure.lines.push_back(std::move(valid));
    return figure;
}

LineFigure norm_figure(const Thinned& thin) {
    LineFigure figure = step_figure("gradient-norm", "Gradient norm before clipping", "gradient norm", thin, 1,
                                    &StepMetrics::gradient_norm);
    bool positive = true;
    for (const LinePoint& p : figure.lines.front().points) {
        positive = positive && !(p.y <= 0);
    }
    figure.log_y = positive;
    return figure;
}

// Rates are small; numbers of many zeros would not fit beside the axis.
LineFigure learning_rate_figure(const Thinned& thin) {
    double largest = 0;
    for (const StepMetrics& row : thin.rows) {
        largest = std::max(largest, std::isfinite(row.lr) ? row.lr : 0);
    }
    const bool micro = largest < 1e-4, milli = largest < 0.1;
    LineFigure figure = step_figure("learning-rate", "Learning rate",
                                    micro   ? "learning rate [10\u207b\u2076]"
                                    : milli ? "learning rate [10\u207b\u00b3]"
                                            : "learning rate",
                                    thin,
                                    micro   ? 1e6
                                    : milli ? 1e3
                                            : 1,
                                    &StepMetrics::lr);
    figure.y_low = 0;
    return figure;
}

LineFigure memory_figure(const Thinned& thin) {
    LineFigure figure =
        step_figure("memory", "Memory of rank 0, peak so far", "memory [MiB]", thin, 1, &StepMetrics::loss);
    for (std::size_t i = 0; i < thin.rows.size(); ++i) {
        figure.lines.front().points[i].y = static_cast<double>(thin.rows[i].memory_bytes) / (1 << 20);
    }
    figure.y_low = 0;
    return figure;
}

LineFigure rate_figure(const Thinned& thin, double median) {
    const bool thousands = median >= 2e3;
    LineFigure figure =
        step_figure("throughput", "Throughput of all ranks", thousands ? "thousand tokens/s" : "tokens/s", thin,
                    thousands ? 1e-3 : 1, &StepMetrics::tokens_per_s);
    figure.y_low = 0;
    return figure;
}

}  // namespace

Document run_document(const RunRecord& run) {
    Document document;
    document.title = "Run " + run.name;
    document.main_table = "steps";
    document.provenance = {
        {"written", utc_time()}, {"program", version_text()}, {"run", run.provenance}, {"run_file", run.run_file}};
    auto& blocks = document.blocks;
    const Thinned thin = thinned(run.rows, most_points);
    const HistogramFigure histogram = step_histogram(run.rows);
    const Facts facts = facts_of(run.rows);
    blocks.emplace_back(Items{run.notes});
    blocks.emplace_back(Charts{{
        figure_html(loss_figure(run, thin)),
        figure_html(learning_rate_figure(thin)),
        figure_html(norm_figure(thin)),
        figure_html(rate_figure(thin, quantile(facts.rates, 0.5))),
        figure_html(memory_figure(thin)),
        figure_html(histogram),
    }});
    blocks.emplace_back(summary_table(run));
    if (run.rows.size() > 1) {
        blocks.emplace_back(longest_table(run.rows));
    }
    if (!run.ranks.empty()) {
        blocks.emplace_back(ranks_table(run.ranks));
    }
    if (Table valid = validation_table(run.rows); !valid.rows.empty()) {
        blocks.emplace_back(Folded{"Validation losses", "", {std::move(valid)}});
    }
    if (!run.events.empty()) {
        blocks.emplace_back(Folded{"Events", "", {events_table(run.events)}});
    }
    if (!histogram.counts.empty()) {
        blocks.emplace_back(Folded{"Steps by their time", "", {histogram_table(histogram)}});
    }
    blocks.emplace_back(Folded{"Steps", "", {steps_table(thin)}});
    blocks.emplace_back(Heading{2, "Where the figures come from"});
    if (!run.run_file.empty()) {
        blocks.emplace_back(Folded{"Run file, resolved", run.run_file, {}});
    }
    if (!run.provenance.empty()) {
        blocks.emplace_back(Folded{"Program, machine, libraries", run.provenance, {}});
    }
    blocks.emplace_back(
        Paragraph{fmt::format("Written {} by ogrom {} from {}. The same figures are in report.csv "
                              "(steps), tables/*.csv, report.json and report.h5.",
                              utc_time(), build_info().program, run.folder)});
    return document;
}

std::string run_text(const RunRecord& run) {
    const Facts f = facts_of(run.rows);
    std::string out = fmt::format("run {}: step {}, loss {:.4f}", run.name, run.rows.back().step, run.rows.back().loss);
    out += std::isfinite(f.last_valid) ? fmt::format(", validation {:.4f}", f.last_valid) : "";
    out += f.rates.empty() ? "" : fmt::format(", {} tokens/s", grouped(std::llround(quantile(f.rates, 0.5))));
    out += f.skipped > 0 ? fmt::format(", {} steps skipped", f.skipped) : "";
    out += "\n";
    for (const std::string& note : run.notes) {
        out += "  " + note + "\n";
    }
    return out;
}

}  // namespace ogrom
