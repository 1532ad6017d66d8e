// Which units ZeRO 3 gathers in a step, when, and into which buffer: a pure function of the program, so that all ranks
// call alike and the traffic is known before.
#pragma once
#include <array>
#include <span>
#include <vector>

#include "src/config/run.h"
#include "src/model/unit.h"

namespace ogrom {

struct Gather {
    i64 unit = 0;
    i64 buffer = 0;                 // 0 or 1; regather = step has one buffer, of all units
    std::vector<FlatRange> ranges;  // what is gathered
    i64 issue_at = 0;               // index of the use at whose start it is issued, one gather ahead of its own
    i64 needed_at = 0;              // index of the first use that reads it
};

struct GatherPlan {
    std::vector<Gather> gathers;     // in order of issue
    std::vector<i64> buffer_of_use;  // -1 where the use reads no weights
    std::vector<i64> gather_of_use;  // the gather that brought what the use reads
};

GatherPlan plan_gathers(const ParameterLayout& layout, std::span<const UnitUse> uses, Regather regather);

}  // namespace ogrom
