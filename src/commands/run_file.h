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

// comm.timeout_s: the watchdog starts before the ranks are known, so its time is read first. The standard one where the
// file is at fault, which is reported once the session can speak for all ranks.
double timeout_of(const std::string& path, const std::vector<std::string>& overrides);

}  // namespace ogrom
