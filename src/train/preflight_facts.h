// What one rank knows of itself, as text for the others; what is measured comes later.
#pragma once
#include <string>

#include "src/train/preflight.h"

namespace ogrom {

std::string facts_text(const PreflightRank& rank);
PreflightRank facts_of(const std::string& text);

}  // namespace ogrom
