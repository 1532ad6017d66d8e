// From entries to fields: unknown names, wrong types and values out of range become faults that say what would be
// right.
#pragma once
#include <set>

#include "src/config/entry.h"
#include "src/config/schema.h"

namespace ogrom {

struct Assigned {
    Given given;                // the entry that decides each key
    std::set<std::string> bad;  // keys with a faulty value, or that an unknown name seems to mean: not checked further
};

// Every key at its standard value; derived and required ones at 0 or empty.
RunConfig standard_run();
void reset_key(const Key& key, RunConfig& run);  // to its standard value

Assigned assign_entries(const std::vector<Entry>& entries, RunConfig& run, Faults& faults);

}  // namespace ogrom
