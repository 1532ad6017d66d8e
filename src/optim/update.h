// The update of what this rank keeps moments of, by the run's optimizer, and the weights' way to the ranks that compute
// with them. Formulas and cost: kernels/ops/optimizer.h. AdamW: Loshchilov & Hutter 2019.
// Comes in: state.gradients, joined, not scaled; rate and clip factor in the scalars. Goes out: weights and moments of
// this update (of bf16, fp16: master, rounded into the weights); ZeRO 1 and 2: the owners' weights broadcast to the
// zero group. Next: io/metrics.cpp.
#pragma once
#include <memory>

#include "kernels/ops/optimizer.h"

#include "src/device/arena.h"
#include "src/device/ledger.h"
#include "src/optim/state.h"

namespace ogrom {

// Scalars of update number `updates_done` + 1.
ops::StepScalars make_scalars(const OptimizerConfig& optimizer, double lr, double clip, i64 updates_done);

template <class T>
class WeightUpdate {
public:
    // Line "optimizer.scalars": read by the kernels where they run; on a GPU "optimizer.scalars.host" too.
    static void declare(Ledger& ledger, Backend backend = Backend::cpu);
    WeightUpdate(const OptimizerConfig& optimizer, const ParameterLayout& layout, const Ownership& ownership,
                 const StepOptions& options, const StepGroups& groups, Arena& arena, const StepState<T>& state);
    ~WeightUpdate();
    // Collective over the zero group for ZeRO 1 and 2. scalars.skip leaves weights and moments alone. On a GPU the host
    // must have waited for the stream since the last call.
    void run(Stream stream, const ops::StepScalars& scalars);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ogrom
