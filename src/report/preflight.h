// A preflight for people (tables) and for scripts (JSON).
#pragma once
#include <string>

#include "src/train/preflight.h"

namespace ogrom {

std::string preflight_text(const Preflight& found);

// One object with "format": 1: launch, ranks, links, collectives, folder, findings, verdict. Rates in bytes and flops
// per second.
std::string preflight_json(const Preflight& found);

// "ok ..." or "2 faults, 1 warning ...": the last line.
std::string preflight_verdict(const Preflight& found);

// "0-3,8" of the mask "111100001".
std::string core_list(const std::string& mask);

}  // namespace ogrom
