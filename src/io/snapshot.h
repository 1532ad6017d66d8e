// The state of a rank as checkpoints hold it: on the host, in the type of the master. On the CPU the state itself; on a
// GPU lines "snapshot.*" of the ledger, filled before a save and taken over after a load.
// Comes in: state.weights, master, moments (arena). Goes out: flat views on the host. Next: io/checkpoint_save.cpp.
#pragma once
#include "src/device/arena.h"
#include "src/device/buffer.h"
#include "src/optim/state.h"

namespace ogrom {

template <class T>
class Snapshot {
public:
    using Held = GradientOf<T>;  // of weights (16 bits: the master), moments and of what a checkpoint stores
    // `state` and `window` must outlive it.
    Snapshot(const StepState<T>& state, const HostWindow& window, Arena& arena, Stream stream);

    // The state as it is now; a moment that the optimizer lacks is empty. Weights have the ranges of state.weights: of
    // 16 bits the master where this rank has it, elsewhere the weights themselves. Valid until the next call.
    struct Views {
        FlatView<Held> weights, moment1, moment2;
    };
    const Views& collect() const;
    // Memory of the same extents to load into, and the way from there into the state.
    [[nodiscard]] const Views& views() const { return views_; }
    void deliver() const;

private:
    void collect_weights() const;
    void deliver_weights() const;
    const StepState<T>& state_;
    const HostWindow& window_;
    Stream stream_;
    Views views_;
};

}  // namespace ogrom
