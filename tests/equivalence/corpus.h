// A small byte-token set in a folder, and runs on it through the whole trainer.
#pragma once
#include <string>
#include <vector>

#include "src/train/trainer.h"

#include "tests/equivalence/tiny.h"

namespace ogrom::test {

// Writes the token set `prefix` on rank 0; collective.
void write_corpus(const std::string& prefix);

// The tiny model on that set, with dropout, writing to `output`; for `ranks` ranks, 0 = all.
RunConfig corpus_run(const std::string& prefix, const std::string& output, const std::vector<std::string>& overrides,
                     i64 ranks = 0);

// A whole run by all ranks. Collective.
template <class T>
TrainSummary run_trainer(const RunConfig& run, const TrainOptions& options, UnitHook<T> hook = {}) {
    return Trainer<T>(session(), run, options, std::move(hook)).run();
}

}  // namespace ogrom::test
