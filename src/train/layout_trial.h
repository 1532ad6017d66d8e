// A short training of a selftest model under a layout, on data that is a
// function of the global sample number.
#pragma once
#include <memory>
#include <vector>

#include "src/train/engine.h"
#include "src/train/selftest_layouts.h"

namespace ogrom {

// The run file of the layout, resolved for that many ranks. Throws Error(usage)
// where it is refused.
RunConfig parse_layout(const SelftestLayout& layout, i64 ranks);

// Micro-batches of a data rank for a step; every fifth target is masked.
std::vector<Batch> trial_batches(const RunConfig& run, i64 data_rank, i64 step);

struct Course {
    std::vector<double> losses, norms;  // of each step
};

template <class T>
std::unique_ptr<Engine<T>> make_trial(const RunConfig& run, Mesh& mesh, const Device& device = {}, Stream stream = {});

// Trains run.train.steps steps; after each of them every copy of a weight must
// equal the others (B01). Collective.
template <class T>
Course run_trial(Engine<T>& engine);

}  // namespace ogrom
