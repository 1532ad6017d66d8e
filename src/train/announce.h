// What a run says of its data before step 1.
#pragma once
#include "src/config/run.h"
#include "src/data/sampler.h"

namespace ogrom {

// `valid`: null without held-out data.
void announce_data(const RunConfig& run, const Sampler& train, const Sampler* valid);

}  // namespace ogrom
