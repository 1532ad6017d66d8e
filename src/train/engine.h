// Everything that one optimizer step needs, on one rank: layout, arena, stage, reducer, optimizer state. Made from the
// resolved run and a data-parallel communicator; knows no run folder, no files, no terminal, so that tests build
// several in one process.
#pragma once
#include <functional>
#include <span>

#include "src/comm/communicator.h"
#include "src/config/run.h"
#include "src/io/checkpoint.h"
#include "src/optim/gradients.h"
#include "src/optim/shard.h"
#include "src/pipeline/schedule.h"
#include "src/plan/decide.h"

namespace ogrom {

// Sees (and, in tests, spoils) a finished range of this rank's own gradient before it is reduced.
template <class T>
using GradientHook = std::function<void(i64 step, i64 first, i64 last, std::span<T> gradients)>;

template <class T>
class Engine {
public:
    // `run`, `dp` must outlive the engine. Takes the arena, draws the initial weights, clears the moments.
    Engine(const RunConfig& run, const Decisions& decisions, const Ledger& ledger, Communicator& dp,
           GradientHook<T> hook = {});
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    [[nodiscard]] StateView<T> state() { return {weights, moment1, moment2}; }
    [[nodiscard]] StateView<const T> state() const { return {weights, moment1, moment2}; }
    [[nodiscard]] i64 updates() const { return step - skipped; }  // what the bias corrections count

    const RunConfig& run;
    const Decisions decisions;
    Communicator& dp;
    const Stream stream;
    const ParameterTable table;
    const ParameterLayout layout;
    const std::vector<UpdateRange> ranges;
    const std::vector<ActionList> passes;  // the schedule, cut after each backward pass
    Arena arena;
    const std::span<T> weights, gradients, moment1, moment2;  // [layout.size()]; a moment may be empty
    GradientReducer<T> reducer;
    Stage<T> stage;

    i64 step = 0;               // steps done: data and learning rate go by it
    i64 skipped = 0;            // steps among them that made no update (non-finite)
    i64 consecutive_skips = 0;  // of the last steps
    i64 resumed_at = 0;         // step at which this process took over

private:
    StageHooks make_hooks(GradientHook<T> hook);
};

}  // namespace ogrom
