// Where a use reads a unit's weights: the full buffer, or under ZeRO 3 what gathers (optim/gathers) brought. A part of
// optim/units.
#pragma once
#include <array>

#include "src/device/arena.h"
#include "src/device/ledger.h"
#include "src/optim/gathers.h"
#include "src/optim/in_flight.h"
#include "src/optim/state.h"

namespace ogrom {

template <class T>
class UnitWeights {
public:
    static void declare(Ledger& ledger, const ParameterLayout& layout, const StepOptions& options);
    UnitWeights(const ParameterLayout& layout, const Ownership& ownership, const StepOptions& options,
                const StepGroups& groups, Arena& arena, const FlatView<T>& weights);

    void begin(std::span<const UnitUse> uses);
    // What use `at` of `uses` reads; null where it reads nothing. Issues the gathers that are due.
    std::array<const T*, 2> acquire(i64 at, const UnitUse& use);
    // All weights of this rank are here, at the same place at all times.
    [[nodiscard]] bool full() const { return options_.zero < 3; }
    void poll() { calls_.poll(); }
    void drain() { calls_.drain(); }
    [[nodiscard]] double waited_s() const { return calls_.waited_s(); }

private:
    void issue_due(i64 at);
    void issue(const Gather& gather);
    [[nodiscard]] T* place(const Gather& gather, std::size_t range) const;
    const ParameterLayout& layout_;
    const Ownership& ownership_;
    const StepOptions options_;
    Communicator* const shard_;  // null for one rank
    const Stream stream_;
    const FlatView<T> weights_;
    std::span<T> buffer_;
    i64 buffer_elements_ = 0;  // of one of the two
    GatherPlan plan_;
    std::vector<i64> complete_at_;  // of each gather issued: number of its last call
    std::array<i64, 2> fills_{};    // of each buffer since the start
    InFlight calls_;
};

}  // namespace ogrom
