// Where a use adds a unit's gradients, and their way to the owners. A part of optim/units.
#pragma once
#include <array>

#include "src/device/arena.h"
#include "src/device/ledger.h"
#include "src/model/unit.h"
#include "src/optim/in_flight.h"
#include "src/optim/state.h"

namespace ogrom {

// Pieces of reductions, calls under way at a time, and the contributions that the fixed order keeps for them.
struct ReductionExtents {
    i64 piece = 1;         // most elements of a call
    i64 slots = 1;         // most calls under way
    i64 slot_scratch = 0;  // elements
};
ReductionExtents reduction_extents(const ParameterLayout& layout, const StepOptions& options, const StepPlace& place);

template <class T>
class UnitGradients {
public:
    static void declare(Ledger& ledger, const ParameterLayout& layout, const StepOptions& options,
                        const StepPlace& place);
    UnitGradients(const ParameterLayout& layout, const Ownership& ownership, const StepOptions& options,
                  const StepGroups& groups, Arena& arena, const FlatView<T>& gradients);

    void begin(std::span<const UnitUse> uses);
    std::array<T*, 2> acquire(const UnitUse& use);
    // True where the release of use `at`, which writes gradients, makes them final: for this micro-batch (staged) or
    // for the step (direct). reduce() issues them then.
    [[nodiscard]] bool complete(i64 at) const;
    void reduce(i64 at, const UnitUse& use);
    [[nodiscard]] bool staged() const { return options_.way == GradientWay::staged; }
    void poll() { calls_.poll(); }
    void drain() { calls_.drain(); }
    void finish();
    [[nodiscard]] double waited_s() const { return calls_.waited_s(); }

private:
    void issue_buckets();
    void reduce_unit(const Unit& unit);
    void sum_over_replicas();
    void broadcast_parts();
    T* next_slot();
    void issued(Pending call, std::function<void()> complete = {});
    void add(FlatRange range, const T* sum);

    const ParameterLayout& layout_;
    const Ownership& ownership_;
    const StepOptions options_;
    const StepPlace place_;
    const ReductionExtents extents_;
    Communicator* const shard_;
    Communicator* const replica_;
    const Stream stream_;
    const FlatView<T> gradients_;
    std::span<T> scratch_;
    std::array<std::span<T>, 2> working_;  // staged
    std::array<i64, 2> working_busy_{};    // number of the last call that reads it
    std::size_t turn_ = 0;                 // working buffer in use
    std::vector<FlatRange> buckets_;       // direct
    std::vector<i64> missing_;             // elements of each bucket that are not final yet; -1 = issued
    std::vector<bool> final_;              // per use: the unit's last that writes gradients
    bool writes_ = false;
    InFlight calls_;
};

}  // namespace ogrom
