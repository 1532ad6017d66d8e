// The state of a rank as checkpoints hold it: on the host, in the type of the master. On the CPU the state itself, and
// with background saves a copy of what the rank writes; on a GPU a copy of all. Copies are lines "snapshot.*" of the
// ledger, filled before a save; on a GPU also taken over after a load.
// Comes in: state.weights, master, moments (arena). Goes out: flat views on the host. Next: io/checkpoint_save.cpp.
#pragma once
#include <optional>
#include <vector>

#include "src/device/arena.h"
#include "src/device/buffer.h"
#include "src/optim/state.h"

namespace ogrom {

template <class T>
class Snapshot {
public:
    using Held = GradientOf<T>;  // of weights (16 bits: the master), moments and of what a checkpoint stores
    // `state` and `window` must outlive it. `copied`: what freeze() copies, of a run that saves in the background;
    // none: nothing on the CPU, all on a GPU. With it the memory of a GPU's snapshot is page-locked (make_ledger).
    Snapshot(const StepState<T>& state, const HostWindow& window, Arena& arena, Stream stream,
             std::optional<std::vector<FlatRange>> copied);

    // The state as it is now; a moment that the optimizer lacks is empty. Weights have the ranges of state.weights: of
    // 16 bits the master where this rank has it, elsewhere the weights themselves. Valid until the next call.
    struct Views {
        FlatView<Held> weights, moment1, moment2;
    };
    const Views& collect() const;
    // What a save writes. A copy stays as it is while training goes on, until the next call of freeze() or, on a GPU,
    // collect(). Of the views only the ranges `copied` are as they should be, where there are such.
    const Views& freeze() const;
    // Memory of the same extents to load into, and the way from there into the state.
    [[nodiscard]] const Views& views() const { return views_; }
    void deliver() const;

private:
    void collect_weights() const;
    void collect_copied() const;
    void deliver_weights() const;
    const StepState<T>& state_;
    const HostWindow& window_;
    Stream stream_;
    std::optional<std::vector<FlatRange>> copied_;
    Views views_, copy_;
};

}  // namespace ogrom
