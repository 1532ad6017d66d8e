#include "src/report/chart.h"

#include <cmath>
#include <fmt/format.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/report/gnuplot.h"

namespace ogrom {

namespace {

// step, loss, validation loss, lr; "?" marks what is missing or not finite.
std::string table(const std::vector<StepMetrics>& rows, bool& has_loss, bool& has_validation) {
    const auto field = [](double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string("?"); };
    std::string text = "# step loss valid_loss lr\n";
    for (const StepMetrics& row : rows) {
        has_loss = has_loss || std::isfinite(row.loss);
        has_validation = has_validation || (row.valid_loss && std::isfinite(*row.valid_loss));
        text += fmt::format("{} {} {} {}\n", row.step, field(row.loss), row.valid_loss ? field(*row.valid_loss) : "?",
                            field(row.lr));
    }
    return text;
}

}  // namespace

std::string loss_chart_script(const std::string& title, bool has_validation) {
    const std::string validation =
        has_validation ? ", 'loss.dat' using 1:3 with linespoints lc rgb 'black' lw 1.5 dt 2 pt 6 ps 0.7 "
                         "title 'validation loss'"
                       : "";
    return fmt::format(
        "set terminal svg size 900,620 font 'sans-serif,13' background rgb 'white' noenhanced\n"
        "set output 'loss.svg.tmp'\n"
        "set datafile missing '?'\n"
        "set multiplot\n"
        "set grid lc rgb '#cccccc' lw 0.5\n"
        "set border 3\n"
        "set tics nomirror out\n"
        "set lmargin at screen 0.14\n"
        "set rmargin at screen 0.97\n"
        "stats 'loss.dat' using 1 name 'step' nooutput\n"
        "set xrange [0:(step_max > 0 ? step_max : 1)]\n"
        "if (step_max < 10) set xtics 1\n"  // no half steps
        "set tmargin at screen 0.92\n"
        "set bmargin at screen 0.40\n"
        "set title {} noenhanced\n"
        "set ylabel 'loss (nat per token)'\n"
        "set format x ''\n"
        "set key top right\n"
        "plot 'loss.dat' using 1:2 with lines lc rgb '#555555' lw 1.2 title 'training loss'{}\n"
        "unset title\n"
        "set format x '%g'\n"
        "set tmargin at screen 0.34\n"
        "set bmargin at screen 0.11\n"
        "set xlabel 'optimizer step'\n"
        "set ylabel 'learning rate'\n"
        "set format y '%.1e'\n"
        "set yrange [0:*]\n"
        "set key off\n"
        "plot 'loss.dat' using 1:4 with lines lc rgb 'black' lw 1.2 title 'learning rate'\n"
        "unset multiplot\n",
        gnuplot_text(title), validation);
}

std::optional<std::string> draw_loss_chart(const std::string& folder, const std::string& title,
                                           const std::vector<StepMetrics>& rows, std::string& reason) {
    reason.clear();
    bool has_loss = false, has_validation = false;
    const std::string data = table(rows, has_loss, has_validation);
    if (!has_loss) {
        reason = "no finite loss to draw";
        return std::nullopt;
    }
    try {
        const std::string work = join_path(folder, fmt::format(".loss-chart-{}", ::getpid()));
        make_directories(work);
        write_file_atomic(join_path(work, "loss.dat"), data);
        write_file_atomic(join_path(work, "loss.gp"), loss_chart_script(title, has_validation));
        reason = run_gnuplot(work, "loss.gp");
        const std::string drawn = join_path(work, "loss.svg.tmp"), chart = join_path(folder, "loss.svg");
        if (reason.empty() && (!file_exists(drawn) || file_size(drawn) == 0)) {
            reason = "gnuplot drew nothing";
        }
        if (reason.empty()) {
            rename_durable(drawn, chart);
        }
        remove_tree(work);
        return reason.empty() ? std::optional(chart) : std::nullopt;
    } catch (const Error& error) {
        reason = error.what();
        return std::nullopt;
    }
}

}  // namespace ogrom
