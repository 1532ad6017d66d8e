// Decides once: run file plus mesh shape become the named extents and flags
// that the runtime reads.
#pragma once
#include <string>
#include <vector>

#include "src/comm/mesh.h"
#include "src/config/run.h"
#include "src/device/ledger.h"
#include "src/model/stage.h"
#include "src/optim/state.h"
#include "src/pipeline/schedule.h"

namespace ogrom {

struct Decisions {
    StageShape shape;          // this stage's chunks, extents, slots, place on the tensor
                               // axis, recomputation
    ScheduleSpec schedule;     // of a training step
    StageSchedule actions;     // this stage's part of it
    StepOptions step;          // ZeRO stage, way of the gradients, order, buckets
    StepPlace place;           // in the zero group and among its replicas
    i64 micro_batches = 1;     // per step and data rank
    i64 evaluation_batch = 1;  // micro-batches of one forward-only schedule
    bool has_moment1 = true, has_moment2 = true;
    bool background_saves = false;     // saves at an interval are written from a copy while training goes on
    bool records_passes = false;       // a GPU launches passes whole that were recorded once (train/pass_graphs)
    Backend backend = Backend::cpu;    // where the kernels run
    std::vector<std::string> reasons;  // what was chosen and why: the plan printed at start
};
Decisions decide(const RunConfig& run, const MeshShape& mesh, const MeshPlace& place, int threads,
                 Backend backend = Backend::cpu);

// Micro-batches that the passes of a step or of an evaluation see at once, at most.
i64 batches_at_once(const Decisions& decisions);

// The ledger of one rank, from configuration and mesh shape alone, without MPI
// or a device (plan/ledger). Lines that the engine takes: "weights", "master" (bf16, fp16), "gradients", "moment1",
// "moment2" (as decided), on a GPU or with background_saves "snapshot.*", and those of the stage, of optim and of the
// batches.
Ledger make_ledger(const RunConfig& run, const Decisions& decisions);

// The plan as text: mesh, batch equation, schedule in step numbers, choices
// with reasons, ledger and what its letters mean. Printed at start.
std::string plan_text(const RunConfig& run, const MeshShape& mesh, const Decisions& decisions, const Ledger& ledger);

// What ranks on one machine would take, of the rank that takes the most.
struct PlannedNeed {
    i64 ranks = 1;
    i64 each = 0;  // the whole ledger of a rank
    i64 cut = 0;   // of it what the arena cuts, by which train refuses
    Dtype compute = Dtype::fp32;
};
// One line: whether they fit into `free_bytes` of this machine, and what train would do if not.
std::string verdict_text(const PlannedNeed& need, i64 free_bytes);

}  // namespace ogrom
