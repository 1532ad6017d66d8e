// The loss chart of one run: training loss per step, validation loss where it was measured, learning rate below. SVG on
// white, told apart in black and white by line kind and marks. Drawn by gnuplot, found at run time; a machine without
// it goes without the chart.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "src/io/metrics.h"

namespace ogrom {

// Writes `folder`/loss.svg from `rows`. Returns its path; std::nullopt with the reason in `reason` when there is no
// gnuplot or nothing finite to draw. A chart is never worth a run: nothing is thrown for a gnuplot that fails, the
// reason says so.
std::optional<std::string> draw_loss_chart(const std::string& folder, const std::string& title,
                                           const std::vector<StepMetrics>& rows, std::string& reason);

// gnuplot's program for the chart; `title` is quoted so that it is text whatever it holds. Reads loss.dat and writes
// loss.svg.tmp in the working folder.
std::string loss_chart_script(const std::string& title, bool has_validation);

}  // namespace ogrom
