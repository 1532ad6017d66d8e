// Decides once: run file plus mesh shape become the named extents and flags that the runtime reads.
#pragma once
#include <string>
#include <vector>

#include "src/comm/mesh.h"
#include "src/config/run.h"
#include "src/device/ledger.h"
#include "src/model/parameters.h"
#include "src/model/stage.h"

namespace ogrom {

struct Decisions {
    StageSpan span;
    StageExtents extents;
    ReduceOrder reduce_order = ReduceOrder::any;
    i64 bucket_elements = 0;
    bool overlap = true;
    i64 micro_batches = 1;  // per step and rank
    bool has_moment1 = true, has_moment2 = true;
    std::vector<std::string> reasons;  // what was chosen and why: the plan printed at start
};
Decisions decide(const RunConfig& run, const MeshShape& mesh, const MeshPlace& place, int threads);

// The ledger of one rank, from configuration and mesh shape alone, without MPI or a device (plan/ledger). Lines that
// the engine takes: "weights", "gradients", "moment1", "moment2" (as decided), those of the stage and of the reducer.
Ledger make_ledger(const RunConfig& run, const MeshShape& mesh, const Decisions& decisions);

// The plan as text: mesh, batch equation, schedule in step numbers, choices with reasons, ledger. Printed at start.
std::string plan_text(const RunConfig& run, const MeshShape& mesh, const Decisions& decisions, const Ledger& ledger);

}  // namespace ogrom
