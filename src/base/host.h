// The machine's name.
#pragma once
#include <string>

namespace ogrom {

// gethostname(2); "unknown" where the machine does not say.
std::string host_name();

}  // namespace ogrom
