// gnuplot, found at run time: a machine without it goes without charts.
#pragma once
#include <string>
#include <string_view>

namespace ogrom {

// Runs the script of that name in `folder`, without a shell; empty when it succeeded, else the reason.
std::string run_gnuplot(const std::string& folder, const std::string& script);

// Any text as a string of gnuplot's.
std::string gnuplot_text(std::string_view text);

// The picture that `script` draws into chart.svg, in a temporary folder of its own; a failure gives an empty text and
// the reason.
std::string gnuplot_picture(const std::string& script, std::string& reason);

}  // namespace ogrom
