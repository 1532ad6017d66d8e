#include "src/report/figure.h"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>

#include "src/report/gnuplot.h"
#include "src/report/html.h"

namespace ogrom {
namespace {

bool has_gnuplot() {
    return std::system("command -v gnuplot > /dev/null 2>&1") == 0;
}

LineFigure lines() {
    LineFigure figure;
    figure.id = "f-1";
    figure.title = "Title <b>";
    figure.x_label = "ranks";
    figure.y_label = "it's `date` $x";
    figure.log_x = true;
    figure.x_ticks = {1, 2};
    figure.lines = {{"first", {{1, 10, 9, 11}, {2, std::nan("")}, {4, 8, 7, 9}}}, {"empty", {{1, std::nan("")}}}};
    return figure;
}

TEST(Figure, ALineWithoutPointsIsLeftOutAndNothingToDrawIsSaid) {
    const std::string script = figure_script(lines());
    EXPECT_NE(script.find("$d0 << EOD\n1 10 9 11\n2 NaN NaN NaN\n4 8 7 9\nEOD\n"), std::string::npos) << script;
    EXPECT_EQ(script.find("$d1"), std::string::npos);
    EXPECT_EQ(script.find("yerrorbars"), std::string::npos);  // not every point has a spread
    EXPECT_EQ(figure_script(LineFigure{}), "");
    EXPECT_EQ(figure_script(BarFigure{}), "");
    EXPECT_EQ(figure_script(HistogramFigure{}), "");
    const std::string html = figure_html(LineFigure{});
    EXPECT_NE(html.find("No chart: there is no figure to draw"), std::string::npos) << html;
}

TEST(Figure, BarsOfARowFollowEachOtherAndANegativePartIsNone) {
    BarFigure figure;
    figure.parts = {"a", "b", "c"};
    figure.groups = {{"group", {{"1", {2, -1, 3}}}}};
    const std::string script = figure_script(figure);
    EXPECT_NE(script.find("$d0 << EOD\n0 -1 0 2 -1.38 -0.62\nEOD\n"), std::string::npos) << script;
    EXPECT_NE(script.find(" 2 5 "), std::string::npos) << script;  // c begins where a ends
    EXPECT_EQ(script.find("$d1"), std::string::npos);
}

TEST(Figure, APictureTakesTheColoursOfThePageAndNoNamesOfItsOwn) {
    if (!has_gnuplot()) {
        std::string reason;
        EXPECT_EQ(gnuplot_picture("plot 1\n", reason), "");
        EXPECT_NE(reason.find("gnuplot is not installed"), std::string::npos);
        return;
    }
    const std::string html = figure_html(lines());
    EXPECT_NE(html.find("<svg viewBox=\"0 0 640 400\" role=\"img\""), std::string::npos) << html;
    EXPECT_NE(html.find("Title &lt;b&gt;"), std::string::npos);
    for (const char* wanted : {"var(--ink)", "var(--grid)", "var(--c1)", "href='#m6'"}) {
        EXPECT_NE(html.find(wanted), std::string::npos) << wanted;
    }
    for (const char* foreign : {"rgb(", "gpPt", "xlink", "<?xml", "gnuplot", "black", "white"}) {
        EXPECT_EQ(html.find(foreign), std::string::npos) << foreign << "\n" << html;
    }
    BarFigure bars;
    bars.id = "b";
    bars.parts = {"a", "b"};
    bars.groups = {{"x' ; system 'touch /tmp/never'", {{"1", {1, 2}}, {"2", {2, 1}}}}};
    const std::string picture = figure_html(bars);
    EXPECT_NE(picture.find("url(#h2)"), std::string::npos) << picture;
    EXPECT_NE(picture.find("system"), std::string::npos);  // as text
    EXPECT_EQ(picture.find("rgb("), std::string::npos);
}

// Whatever a chart or a legend refers to is defined on the page.
TEST(Figure, EveryMarkAndHatchIsDefined) {
    const std::string page = page_html("t", "");
    for (int i = 1; i <= 9; ++i) {
        EXPECT_NE(page.find("<pattern id=\"h" + std::to_string(i) + "\""), std::string::npos) << i;
    }
    for (const int mark : {3, 4, 5, 6, 7, 8, 11, 12}) {
        EXPECT_NE(page.find("id=\"m" + std::to_string(mark) + "\""), std::string::npos) << mark;
    }
    for (int i = 1; i <= 8; ++i) {
        EXPECT_NE(page.find("--c" + std::to_string(i) + ":"), std::string::npos) << i;
    }
}

TEST(Figure, APictureOfGnuplotThatIsNotUnderstoodIsNoPicture) {
    EXPECT_EQ(inline_svg("<svg></svg>", "id", "t"), "");
    EXPECT_EQ(inline_svg("", "id", "t"), "");
    EXPECT_EQ(inline_svg("viewBox=\"0 0", "id", "t"), "");
}

}  // namespace
}  // namespace ogrom
