// What a run says of itself before step 1: its data, and the plan line by line.
#pragma once
#include <string>

#include "src/comm/mesh.h"
#include "src/config/run.h"
#include "src/data/sampler.h"
#include "src/plan/decide.h"

namespace ogrom {

// `valid`: null without held-out data.
void announce_data(const RunConfig& run, const Sampler& train, const Sampler* valid);
void announce_lines(const std::string& text);  // each line of it to the log
void announce_plan(const RunConfig& run, const MeshShape& shape, const Decisions& decisions, const Ledger& ledger);

}  // namespace ogrom
