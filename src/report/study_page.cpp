// Comes in: a study. Goes out: its report as a document. Next: report/document.cpp
#include "src/report/study_page.h"

#include <fmt/format.h>
#include <set>

#include "src/base/text.h"
#include "src/base/timer.h"
#include "src/base/version.h"
#include "src/report/study_tables.h"

namespace ogrom {
namespace {

bool has_kind(const StudyGroup& group, StudyKind kind) {
    for (const Series& series : group.series) {
        for (const SeriesPoint& p : series.points) {
            if (series.kind == kind && p.measured()) {
                return true;
            }
        }
    }
    return false;
}

void add_table(Document& document, Table table) {
    if (!table.rows.empty()) {
        document.blocks.emplace_back(std::move(table));
    }
}

void add_folded(Document& document, const std::string& summary, Table table) {
    if (!table.rows.empty()) {
        document.blocks.emplace_back(Folded{summary, "", {std::move(table)}});
    }
}

void add_kind(Document& document, const StudyGroup& group, StudyKind kind, const std::string& prefix) {
    if (!has_kind(group, kind)) {
        return;
    }
    const bool weak = kind == StudyKind::weak;
    document.blocks.emplace_back(Heading{3, weak ? "Weak scaling" : "Strong scaling"});
    document.blocks.emplace_back(Paragraph{
        weak ? fmt::format("Each {} keeps its tokens per step, so the global batch grows with the {}s.", group.unit(),
                           group.unit())
             : fmt::format("The global batch stays as it is, so each {} has less to do as they become more. Layouts "
                           "side by side do the same work.",
                           group.unit())});
    Charts charts{{figure_html(curve_figure(group, kind, CurveOf::throughput, prefix))}};
    if (const LineFigure figure = curve_figure(group, kind, CurveOf::efficiency, prefix); !figure.lines.empty()) {
        charts.figures.push_back(figure_html(figure));
    }
    document.blocks.emplace_back(std::move(charts));
    document.blocks.emplace_back(throughput_table(group, kind, prefix));
}

void add_group(Document& document, const StudyGroup& group, const std::string& prefix) {
    document.blocks.emplace_back(Heading{2, group.title});
    document.blocks.emplace_back(Items{group.notes});
    add_kind(document, group, StudyKind::weak, prefix);
    add_kind(document, group, StudyKind::strong, prefix);
    document.blocks.emplace_back(Heading{3, "Where the time, the memory and the bytes go"});
    Charts charts;
    for (const StudyKind kind : {StudyKind::weak, StudyKind::strong}) {
        if (const BarFigure figure = cause_figure(group, kind, prefix); !figure.groups.empty()) {
            charts.figures.push_back(figure_html(figure));
        }
    }
    document.blocks.emplace_back(std::move(charts));
    add_table(document, causes_table(group, prefix));
    add_folded(document, "Loss by cause of each rank", ranks_table(group, prefix));
    add_table(document, flops_table(group, prefix));
    add_table(document, predicted_table(group, prefix));
    add_table(document, memory_table(group, prefix));
    add_folded(document, "Memory ledger, line by line", ledger_table(group, prefix));
    add_table(document, traffic_table(group, prefix));
    add_table(document, refused_table(group, prefix));
}

// Texts of the points that differ, each with the points that it belongs to.
void add_provenance(Document& document, const Study& study) {
    document.blocks.emplace_back(Heading{2, "Where the figures come from"});
    std::set<std::string> told;
    i64 number = 0;
    for (const StudyGroup& group : study.groups) {
        for (const Series& series : group.series) {
            for (const SeriesPoint& p : series.points) {
                const StudyPoint& q = p.point;
                std::string words = fmt::format(
                    "study    {}\ncommand  {}\nmachine  {}\nhost     {}\ncommit   {}\n"
                    "date     {}\n",
                    q.study, q.command, q.machine, q.host, q.commit, q.date);
                for (const auto& [name, version] : q.versions) {
                    words += fmt::format("{:<8} {}\n", name, version);
                }
                words += q.run_file.empty() ? "" : "\nrun file, resolved:\n" + q.run_file;
                if (told.insert(words).second) {
                    document.blocks.emplace_back(Folded{fmt::format("{}, {}, {} ranks: command, machine, versions, "
                                                                    "run file",
                                                                    series.label, name_of(series.kind), q.ranks),
                                                        words,
                                                        {}});
                    document.provenance.emplace_back(fmt::format("point-{:04}", ++number), q.id + "\n" + words);
                }
            }
        }
    }
}

}  // namespace

Document study_document(const Study& study) {
    Document document;
    document.title = study.title;
    document.main_table = "points";
    document.provenance = {{"written", utc_time()}, {"program", version_text()}};
    document.blocks.emplace_back(Paragraph{fmt::format(
        "{} points. Weak scaling keeps the tokens of each rank, strong scaling the global batch; efficiencies of one "
        "say nothing of the other. All times are medians over repeats; warm-up, evaluation and saves are in none.",
        study.points)});
    document.blocks.emplace_back(Items{study.notes});
    add_table(document, overview_table(study));
    if (Table sizes = sizes_table(study); !sizes.rows.empty()) {
        document.blocks.emplace_back(Heading{2, "Models beside each other"});
        if (const LineFigure figure = size_figure(study); !figure.lines.empty()) {
            document.blocks.emplace_back(Charts{{figure_html(figure)}});
        }
        document.blocks.emplace_back(std::move(sizes));
    }
    for (std::size_t i = 0; i < study.groups.size(); ++i) {
        add_group(document, study.groups[i], study.groups.size() > 1 ? fmt::format("model{}-", i + 1) : "");
    }
    add_provenance(document, study);
    add_folded(document, "All figures of every point", points_table(study));
    document.blocks.emplace_back(
        Paragraph{fmt::format("Written {} by {}. The same figures are in report.csv (one row for each point), "
                              "tables/*.csv, report.json and report.h5.",
                              utc_time(), "ogrom " + build_info().program)});
    return document;
}

std::string study_text(const Study& study) {
    const Table table = overview_table(study);
    std::string out = study.title + "\n";
    for (const std::vector<Cell>& row : table.rows) {
        const auto cell = [&](std::size_t i) { return shown(row[i], table.columns[i]); };
        out += fmt::format(
            "  {:<6} {:<24} {:>5} -> {:>5} ranks  {:>10} tokens/s  efficiency {:>5} % ({} to {})  "
            "largest loss: {}\n",
            cell(1), cell(2), cell(3), cell(4), cell(5), cell(7), cell(8), cell(9), cell(11));
    }
    for (const StudyGroup& group : study.groups) {
        for (const std::string& note : group.notes) {
            out += "  " + note + "\n";
        }
    }
    return out;
}

}  // namespace ogrom
