// Which parameter of which rank had a gradient that was not finite first in the backward pass.
#pragma once
#include <string>

namespace ogrom {

struct NonFiniteReport {
    bool found = false;
    int rank = -1;
    std::string parameter;
};

}  // namespace ogrom
