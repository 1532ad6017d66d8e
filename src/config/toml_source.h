// TOML to entries: include files, --set overrides, places of every key, and TOML's own errors in our words. The only
// file that sees toml++.
#pragma once
#include <string>
#include <vector>

#include "src/config/entry.h"
#include "src/config/schema.h"

namespace ogrom {

// Reads `path` (or `text` in its name when not empty) and the files it includes, base files first, and appends their
// entries; returns the files, by their canonical paths. `include = ["base.toml"]` is relative to the including file;
// cycles and more than 64 files are refused. A file that several include is read once, where it is named first.
std::vector<std::string> read_run_file(const std::string& path, const std::string& text, std::vector<Entry>& entries,
                                       Faults& faults);

// `--set section.key=value` number `index` (from 1). Values of text keys may stand without quotes.
void read_override(const std::string& argument, i64 index, std::vector<Entry>& entries, Faults& faults);

}  // namespace ogrom
