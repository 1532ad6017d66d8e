// What a check has found, as the user reads it: a fault ends the command with its exit code, a warning does not.
#pragma once
#include <string>

#include "kernels/common/error.h"

namespace ogrom {

enum class FindingLevel { warning, fault };

struct Finding {
    FindingLevel level = FindingLevel::warning;
    ExitCode code = ExitCode::done;  // of a fault
    std::string area;                // "clocks", "links", "folder" ...
    std::string text;                // who, what, by how much, and what would be right
};

inline Finding fault_of(ExitCode code, std::string area, std::string text) {
    return {FindingLevel::fault, code, std::move(area), std::move(text)};
}
inline Finding warning_of(std::string area, std::string text) {
    return {FindingLevel::warning, ExitCode::done, std::move(area), std::move(text)};
}

}  // namespace ogrom
