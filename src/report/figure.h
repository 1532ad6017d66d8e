// Charts of a report as inline SVG: gnuplot draws them in marked colours, which become the page's own, so that they
// follow light and dark. Lines are told apart by dashes and marks, bars by hatches: colour is not needed. The legend is
// HTML and wraps on a narrow screen.
#pragma once
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

struct LinePoint {
    double x = 0, y = 0;                                                // a y that is not finite is a gap
    double low = std::numeric_limits<double>::quiet_NaN(), high = low;  // of the spread; NaN: none
};
struct Line {
    std::string name;
    std::vector<LinePoint> points;  // by ascending x
};

enum class LineStyle {
    marked,  // few points, each with a mark
    plain    // many
};

struct LineFigure {
    std::string id, title, x_label, y_label;
    LineStyle style = LineStyle::marked;
    bool log_x = false, log_y = false;
    std::optional<double> y_low, y_high;  // else by the figures
    std::vector<double> x_ticks;          // empty: by gnuplot
    std::vector<Line> lines;              // at most most_lines; those without a point are left out
    std::string note;
};
inline constexpr std::size_t most_lines = 8;

// Horizontal bars of parts, in groups with a title.
struct BarRow {
    std::string label;           // short
    std::vector<double> values;  // one for each part; below 0 counts as 0
};
struct BarGroup {
    std::string title;
    std::vector<BarRow> rows;
};
struct BarFigure {
    std::string id, title, x_label;
    std::vector<std::string> parts;  // at most nine
    std::vector<BarGroup> groups;
    std::string note;
};

struct HistogramFigure {
    std::string id, title, x_label, y_label;
    std::vector<double> edges;  // ascending, one more than counts
    std::vector<i64> counts;
    std::string note;
};

// <figure>; a sentence with the reason where gnuplot is missing or there is nothing to draw.
std::string figure_html(const LineFigure& figure);
std::string figure_html(const BarFigure& figure);
std::string figure_html(const HistogramFigure& figure);

// gnuplot's programs (they draw into chart.svg).
std::string figure_script(const LineFigure& figure);
std::string figure_script(const BarFigure& figure);
std::string figure_script(const HistogramFigure& figure);

// What gnuplot wrote, as part of a page: no prologue, own names for what is referred to, the page's colours.
std::string inline_svg(const std::string& svg, const std::string& id, const std::string& title);

}  // namespace ogrom
