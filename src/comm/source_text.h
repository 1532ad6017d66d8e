// Where in our source a failure was noticed, as a message prints it.
#pragma once
#include <string>

#include "kernels/common/error.h"

namespace ogrom {

// "src/comm/session.cpp:18", relative to the repository wherever it was built.
std::string source_text(const SourcePlace& where);

}  // namespace ogrom
