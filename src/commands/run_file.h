// A run file with the vocabulary of its token set, as `train` and `plan` resolve it.
#pragma once
#include <string>
#include <vector>

#include "src/config/run.h"

namespace ogrom {

// What a missing token set means: `train` reads it (Error(data)), a plan only asks it where model.vocab is not given.
enum class TokenSetNeed { always, for_vocabulary };

// `ranks` as in ParseInput. Throws Error(usage) for the run file, Error(data) for the token set.
RunConfig resolve_run_file(const std::string& path, const std::vector<std::string>& overrides, i64 ranks,
                           TokenSetNeed need);

}  // namespace ogrom
