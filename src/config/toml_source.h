// TOML to entries: include files, --set overrides, places of every key, and TOML's own errors in our words. The only
// file that sees toml++.
#pragma once
#include <string>
#include <vector>

#include "src/config/entry.h"
#include "src/config/schema.h"

namespace ogrom {

// Reads `path` (or `text` in its name when not empty) and the files it includes, base files first, and appends their
// entries. `include = ["base.toml"]` is relative to the including file; cycles are refused.
void read_run_file(const std::string& path, const std::string& text, std::vector<Entry>& entries, Faults& faults);

// `--set section.key=value` number `index` (from 1). Values of text keys may stand without quotes.
void read_override(const std::string& argument, i64 index, std::vector<Entry>& entries, Faults& faults);

}  // namespace ogrom
