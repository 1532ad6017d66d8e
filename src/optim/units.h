// The engine room of a step: where each unit's weights come from and where its gradients go, under every ZeRO stage.
// Comes in: the step's uses of units in their order (the program); acquire and release as the stage walks it. Goes out:
// state.gradients summed over data ranks on their owners (ZeRO 0: everywhere). Next: optim/join.cpp.
//   weights    ZeRO 0-2: the full buffer. ZeRO 3: each owner broadcasts its pieces of a unit into one of two unit
//              buffers, one unit ahead of its use (regather = step: into a buffer of all units, once a step).
//   gradients  direct: buckets of the full buffer, summed in the last micro-batch once all units that write them are
//              final (all_reduce for ZeRO 0, reduce to the owners for ZeRO 1). staged: a unit's pieces are reduced from
//              one of two working buffers to their owners, which add them to state.gradients.
// The order of calls follows from the program alone: what is ready is issued, and without a free slot the oldest is
// waited for. One thread issues everything. Traffic: optim/traffic.h.
#pragma once
#include <functional>
#include <memory>
#include <span>

#include "src/device/arena.h"
#include "src/device/ledger.h"
#include "src/model/unit.h"
#include "src/optim/nonfinite.h"
#include "src/optim/state.h"

namespace ogrom {

// Sees (and, in tests, spoils) a unit's own gradient of a micro-batch before it is checked and reduced: `values` are
// elements [range.first, range.last) of the gradient space, where the kernels run. direct: the sum over the
// micro-batches so far.
template <class T>
using UnitHook = std::function<void(i64 unit, FlatRange range, T* values)>;

template <class T>
class ParameterUnits final : public UnitSource<T> {
public:
    // Lines "units.weights" (ZeRO 3), "units.gradients" (staged), "gradients.reduction" (fixed order) and, as baseline,
    // "gradients.mpi"; only those of size. And "gradients.nonfinite": the mark of what was not finite.
    static void declare(Ledger& ledger, const ParameterLayout& layout, const StepOptions& options,
                        const StepPlace& place);
    // Layout, ownership, communicators and the memory of `state` must outlive the object. direct takes the order `any`
    // and ZeRO 0 or 1 only.
    ParameterUnits(const ParameterLayout& layout, const Ownership& ownership, const StepOptions& options,
                   const StepGroups& groups, Arena& arena, const StepState<T>& state);
    ~ParameterUnits() override;

    // Begins a step, or an evaluation (uses that write no gradient: state.gradients stay as they are). `uses`: all of
    // this step, in order; the last one of a unit that writes gradients makes them final. Clears the gradients.
    void begin_step(std::span<const UnitUse> uses);
    UnitPointers<T> acquire(i64 unit, Use use) override;  // must be the next of `uses`
    void release(i64 unit, Use use) override;
    void progress() override;
    // True where the next `count` uses only hand out pointers: nothing is gathered, reduced or looked at between them,
    // so that what the stage enqueues meanwhile can be recorded and launched whole.
    [[nodiscard]] bool plain(i64 count) const;
    // Acquires and releases them without the work between, which was launched whole.
    void pass_over(i64 count);
    // After the last use: everything is reduced on return, over replicas too (ZeRO 0: the full gradient on every rank;
    // else what this rank owns). No gradient was written: waits for what is under way.
    void finish();
    // Leaves a step in its middle, at the same use on all ranks: completes what is under way and drops the gradients.
    void abandon();

    // First parameter of this rank's own gradients, in the order of the backward pass, that was not finite in this
    // step, agreed over all ranks: the lowest rank that found one. Collective.
    NonFiniteReport agree_nonfinite(Communicator& world, const ParameterTable& table) const;
    // Time this step has waited for transfers: in acquire, in release and in finish.
    [[nodiscard]] double exposed_s() const;
    void set_hook(UnitHook<GradientOf<T>> hook);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ogrom
