// Comes in: figures as values. Goes out: gnuplot's programs, and <figure> with the picture and its legend.
// Next: report/gnuplot.cpp, report/figure_svg.cpp
#include "src/report/figure.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/report/gnuplot.h"
#include "src/report/html.h"

namespace ogrom {
namespace {

struct LineLook {
    int mark;          // gnuplot's number
    const char* dash;  // lengths, empty: solid
};
constexpr std::array<LineLook, most_lines> looks = {
    {{7, ""}, {5, "9,5"}, {9, "2,4"}, {13, "12,4,2,4"}, {6, ""}, {4, "9,5"}, {8, "2,4"}, {12, "12,4,2,4"}}};

std::string start_of(int height) {
    return fmt::format(
        "set terminal svg size 640,{} font 'sans-serif,21' noenhanced\n"
        "set output 'chart.svg'\n"
        "set border 3 lc rgb '#010101' lw 1\n"
        "set tics nomirror out scale 0.6 textcolor rgb '#010101'\n"
        "set grid lt 1 lc rgb '#010102' lw 1\n"
        "set key off\n"
        "set xtics offset 0,0.5\n"
        "set xlabel offset 0,1.2\n"
        "set rmargin at screen 0.965\n",
        height);
}

// The label of the y axis lies above it, where it is read without turning the head and never meets the numbers.
std::string axes_of(const std::string& x_label, const std::string& y_label) {
    return fmt::format(
        "set lmargin at screen 0.135\nset bmargin at screen 0.19\nset tmargin at screen 0.885\n"
        "set xlabel {} textcolor rgb '#010101'\n"
        "set label {} at screen 0.012, screen 0.955 left textcolor rgb '#010101'\n",
        gnuplot_text(x_label), gnuplot_text(y_label));
}

bool has_points(const Line& line) {
    return std::any_of(line.points.begin(), line.points.end(), [](const LinePoint& p) { return std::isfinite(p.y); });
}

std::vector<Line> drawn_lines(const LineFigure& figure) {
    std::vector<Line> lines;
    std::copy_if(figure.lines.begin(), figure.lines.end(), std::back_inserter(lines), has_points);
    lines.resize(std::min(lines.size(), most_lines));
    return lines;
}

std::string number(double value) {
    return std::isfinite(value) ? fmt::format("{}", value) : "NaN";
}

std::string data_block(std::size_t index, const Line& line) {
    std::string block = fmt::format("$d{} << EOD\n", index);
    for (const LinePoint& p : line.points) {
        block += fmt::format("{} {} {} {}\n", number(p.x), number(p.y), number(p.low), number(p.high));
    }
    return block + "EOD\n";
}

std::string range_text(std::optional<double> low, std::optional<double> high) {
    return fmt::format("[{}:{}]", low ? number(*low) : "*", high ? number(*high) : "*");
}

// Of the x axis: all points, with a margin.
std::string x_range(const std::vector<Line>& lines, bool log, LineStyle style) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const Line& line : lines) {
        for (const LinePoint& p : line.points) {
            low = std::min(low, p.x);
            high = std::max(high, p.x);
        }
    }
    if (log) {
        return fmt::format("[{}:{}]", number(low / 1.25), number(high * 1.25));
    }
    const double margin = low == high ? 1 : style == LineStyle::marked ? (high - low) / 20 : 0;
    return fmt::format("[{}:{}]", number(low - margin), number(high + margin));
}

std::string dash_text(const char* dash) {
    return *dash == '\0' ? "dt 1" : fmt::format("dt ({})", dash);
}

// Few points among many need marks too: a single one is no line.
bool has_marks(const Line& line, LineStyle style) {
    return style == LineStyle::marked || line.points.size() <= 40;
}

std::string plot_line(std::size_t i, const Line& line, LineStyle style) {
    const bool has_spread =
        std::all_of(line.points.begin(), line.points.end(), [](const LinePoint& p) { return std::isfinite(p.low); });
    const LineLook& look = looks[i];
    const std::string colour = fmt::format("lc rgb '#0102{:02x}'", i + 1);
    if (!has_marks(line, style)) {
        return fmt::format("$d{} using 1:2 with lines {} lw 1.6 {}", i, colour, dash_text(look.dash));
    }
    const std::string bars =
        has_spread ? fmt::format("$d{} using 1:2:3:4 with yerrorbars {} lw 1.3 dt 1 pt -1, ", i, colour) : "";
    return bars + fmt::format("$d{0} using 1:2 with lines {1} lw 2 {2}, $d{0} using 1:2 with points {1} pt {3} ps 1", i,
                              colour, dash_text(look.dash), look.mark);
}

std::string line_swatch(std::size_t i, const Line& line, LineStyle style) {
    const std::string dash = *looks[i].dash == '\0' ? "" : fmt::format(" stroke-dasharray=\"{}\"", looks[i].dash);
    const std::string mark =
        !has_marks(line, style)
            ? ""
            : fmt::format("<g transform=\"translate(23,7) scale(5)\" color=\"var(--c{})\"><use href=\"#m{}\"/></g>",
                          i + 1, looks[i].mark - 1);
    return fmt::format(
        "<svg viewBox=\"0 0 46 14\" aria-hidden=\"true\"><path d=\"M1 7H45\" fill=\"none\" stroke=\"var(--c{})\" "
        "stroke-width=\"2\"{}/>{}</svg>",
        i + 1, dash, mark);
}

std::string legend(const std::vector<std::pair<std::string, std::string>>& entries) {
    std::string html = "<ul class=\"legend\">";
    for (const auto& [swatch, name] : entries) {
        html += fmt::format("<li>{}{}</li>", swatch, escape(name));
    }
    return html + "</ul>\n";
}

std::string frame(const std::string& id, const std::string& title, const std::string& script, const std::string& below,
                  const std::string& note) {
    std::string reason;
    const std::string picture = script.empty() ? "" : gnuplot_picture(script, reason);
    const std::string svg = picture.empty() ? "" : inline_svg(picture, id, title);
    std::string html = fmt::format("<figure id=\"{}\">\n<figcaption>{}</figcaption>\n", escape(id), escape(title));
    html += svg.empty() ? fmt::format("<p class=\"note\">No chart: {}. The tables have its figures.</p>\n",
                                      escape(script.empty()   ? "there is no figure to draw"
                                             : reason.empty() ? "gnuplot drew something unknown"
                                                              : reason))
                        : svg + below;
    return html + (note.empty() ? "" : fmt::format("<p class=\"note\">{}</p>\n", escape(note))) + "</figure>\n";
}

struct BarPlace {
    double y;
    const BarRow* row;
};

std::vector<BarPlace> places_of(const BarFigure& figure, std::vector<std::pair<double, std::string>>& titles) {
    std::vector<BarPlace> places;
    double y = 0;
    for (const BarGroup& group : figure.groups) {
        titles.emplace_back(y - 0.05, group.title);
        for (const BarRow& row : group.rows) {
            y -= 1;
            places.push_back({y, &row});
        }
        y -= 1.15;
    }
    return places;
}

// Label of at most what fits the width of the chart.
std::string cut(const std::string& text, std::size_t most) {
    if (text.size() <= most) {
        return text;
    }
    std::size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
        --end;
    }
    return text.substr(0, end) + "\u2026";
}

}  // namespace

std::string figure_script(const LineFigure& figure) {
    const std::vector<Line> lines = drawn_lines(figure);
    if (lines.empty()) {
        return {};
    }
    std::string script = start_of(400) + axes_of(figure.x_label, figure.y_label);
    script += figure.log_x ? "set logscale x 2\n" : "";
    script += figure.log_y ? "set logscale y\nset format y '%g'\n" : "";
    if (!figure.x_ticks.empty()) {
        script += fmt::format("set xtics ({})\n", fmt::join(figure.x_ticks, ","));
    }
    script += fmt::format("set xrange {}\nset yrange {}\n", x_range(lines, figure.log_x, figure.style),
                          range_text(figure.y_low, figure.y_high));
    std::vector<std::string> plots;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        script += data_block(i, lines[i]);
        plots.push_back(plot_line(i, lines[i], figure.style));
    }
    return script + fmt::format("plot {}\n", fmt::join(plots, ", "));
}

std::string figure_html(const LineFigure& figure) {
    const std::vector<Line> lines = drawn_lines(figure);
    std::vector<std::pair<std::string, std::string>> entries;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        entries.emplace_back(line_swatch(i, lines[i], figure.style), lines[i].name);
    }
    return frame(figure.id, figure.title, figure_script(figure), lines.size() > 1 ? legend(entries) : "", figure.note);
}

std::string figure_script(const BarFigure& figure) {
    std::vector<std::pair<double, std::string>> titles;
    const std::vector<BarPlace> places = places_of(figure, titles);
    if (places.empty()) {
        return {};
    }
    double longest = 0;
    const double bottom = places.back().y - 0.6;
    std::vector<std::string> data(figure.parts.size());
    for (const BarPlace& place : places) {
        double at = 0;
        for (std::size_t part = 0; part < figure.parts.size(); ++part) {
            const double value = std::max(0.0, place.row->values[part]);
            data[part] += value > 0 ? fmt::format("{} {} {} {} {} {}\n", at, place.y, at, at + value, place.y - 0.38,
                                                  place.y + 0.38)
                                    : "";
            at += value;
        }
        longest = std::max(longest, at);
    }
    const int height = 84 + static_cast<int>(30 * (0.75 - bottom));
    std::string script = start_of(height);
    script += fmt::format(
        "set lmargin at screen 0.11\nset bmargin at screen {}\nset tmargin at screen {}\nset xlabel {} textcolor rgb "
        "'#010101'\nset xrange [0:{}]\nset yrange [{}:0.75]\nset grid noy x\nunset ytics\n",
        72.0 / height, 1 - 6.0 / height, gnuplot_text(figure.x_label), longest > 0 ? longest * 1.03 : 1, bottom);
    for (const auto& [y, title] : titles) {
        script += fmt::format("set label {} at graph 0.005, first {} left front textcolor rgb '#010101'\n",
                              gnuplot_text(cut(title, 58)), y + 0.08);
    }
    for (const BarPlace& place : places) {
        script += fmt::format("set label {} at graph -0.015, first {} right textcolor rgb '#010101'\n",
                              gnuplot_text(cut(place.row->label, 7)), place.y);
    }
    std::vector<std::string> plots;
    for (std::size_t part = 0; part < figure.parts.size(); ++part) {
        if (!data[part].empty()) {
            script += fmt::format("$d{} << EOD\n{}EOD\n", part, data[part]);
            plots.push_back(fmt::format(
                "$d{0} using 1:2:3:4:5:6 with boxxyerror fs solid border rgb '#010101' lc rgb '#0103{1:02x}' lw 1",
                part, part + 1));
        }
    }
    return plots.empty() ? std::string() : script + fmt::format("plot {}\n", fmt::join(plots, ", "));
}

std::string figure_html(const BarFigure& figure) {
    std::vector<std::pair<std::string, std::string>> entries;
    for (std::size_t part = 0; part < figure.parts.size(); ++part) {
        bool any = false;
        for (const BarGroup& group : figure.groups) {
            any = any || std::any_of(group.rows.begin(), group.rows.end(),
                                     [&](const BarRow& row) { return row.values[part] > 0; });
        }
        if (any) {
            entries.emplace_back(fmt::format("<svg viewBox=\"0 0 46 14\" aria-hidden=\"true\"><rect x=\"1\" y=\"1\" "
                                             "width=\"44\" height=\"12\" fill=\"url(#h{})\" stroke=\"var(--ink)\"/>"
                                             "</svg>",
                                             part + 1),
                                 figure.parts[part]);
        }
    }
    return frame(figure.id, figure.title, figure_script(figure), legend(entries), figure.note);
}

std::string figure_script(const HistogramFigure& figure) {
    if (figure.counts.empty()) {
        return {};
    }
    std::string script = start_of(400) + axes_of(figure.x_label, figure.y_label);
    script += "set grid nox y\nset yrange [0:*]\n";
    script += fmt::format("set xrange [{}:{}]\n$d << EOD\n", figure.edges.front(), figure.edges.back());
    for (std::size_t i = 0; i < figure.counts.size(); ++i) {
        const double low = figure.edges[i], high = figure.edges[i + 1];
        script += fmt::format("{} {} {} {} 0 {}\n", (low + high) / 2, figure.counts[i], low, high, figure.counts[i]);
    }
    return script +
           "EOD\nplot $d using 1:2:3:4:5:6 with boxxyerror fs solid border rgb '#010101' lc rgb '#010301' "
           "lw 1\n";
}

std::string figure_html(const HistogramFigure& figure) {
    return frame(figure.id, figure.title, figure_script(figure), "", figure.note);
}

}  // namespace ogrom
