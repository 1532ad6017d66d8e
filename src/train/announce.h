// What a run says of its data and plan before step 1, and of a step that is not finite.
#pragma once
#include <string>

#include "src/config/run.h"
#include "src/data/sampler.h"
#include "src/train/setup.h"
#include "src/train/step.h"

namespace ogrom {

// The log of rank 0; `valid`: null without held-out data.
struct PlanTold {
    const RunConfig& run;
    const MeshShape& shape;
    const Workplace& place;
    const Device& device;
    const TransportChoice& transport;
    const Session& session;
};
void announce_plan(const PlanTold& plan, const Sampler& train, const Sampler* valid);

// After the step that was skipped, as number `step`.
std::string nonfinite_text(i64 step, const StepResult& result);
// Why a run stops at a step that was skipped, `in_a_row` of them without a good one; empty where it goes on.
std::string stop_text(const NumericsConfig& numerics, const StepResult& result, i64 in_a_row);

}  // namespace ogrom
