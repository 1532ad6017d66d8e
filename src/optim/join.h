// Parts of a gradient that stand apart after the sum over data ranks are brought together, each rank for what it keeps
// (ZeRO 0: all; else what it owns).
//   tied table   one stage: table part += head's part. Two stages: all_reduce in the fixed order over first and last
//                stage, so that both copies get the same bits (embedding part + head's part). Untied: nothing is sent.
//   replicated   sequence parallel: norms, biases after row-parallel products and the position table are partial sums
//                over tensor ranks: packed, one all_reduce.
// Comes in: state.gradients of optim/units. Goes out: the gradient of this rank's loss share over all ranks; the head's
// part of a tied table is spent. Next: optim/clip.cpp.
#pragma once
#include <memory>
#include <vector>

#include "src/device/arena.h"
#include "src/device/ledger.h"
#include "src/optim/state.h"

namespace ogrom {

template <class T>
class GradientJoin {
public:
    // Lines "gradients.tied" (contributions of the exchange between stages), "gradients.replicated" (packed parts) and
    // "gradients.replicated.order" (fixed order); only those of size.
    static void declare(Ledger& ledger, const ParameterLayout& layout, const Ownership& ownership,
                        const StepOptions& options, const StepPlace& place);
    GradientJoin(const ParameterLayout& layout, const Ownership& ownership, const StepOptions& options,
                 const StepGroups& groups, Arena& arena, const StepState<T>& state);
    ~GradientJoin();
    void run();  // collective over tie and tensor groups

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// What this rank keeps of a tied table, in the pieces of the exchange between stages (at most a bucket each, from the
// end); and of the tensors that are partial sums over tensor ranks, in the order in which they are packed. Pure.
std::vector<FlatRange> tied_pieces(const ParameterLayout& layout, const Ownership& ownership,
                                   const StepOptions& options, const StepPlace& place);
std::vector<FlatRange> replicated_pieces(const ParameterLayout& layout, const Ownership& ownership,
                                         const StepOptions& options, const StepPlace& place);
// True where this stage shares a tied table with another one.
bool tied_over_stages(const ParameterLayout& layout);

}  // namespace ogrom
