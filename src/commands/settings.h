// Settings typed as options or bare words ("--tensor-model-parallel-size 2", "parallel.tensor=2"): what would be right.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ogrom {

// A line per word that is no option of `command`, in the order typed; empty where every word is one. `words`: what
// stands behind the command's name. Asked only once a command line was refused.
std::string settings_advice(const CLI::App& command, const std::vector<std::string>& words);

}  // namespace ogrom
