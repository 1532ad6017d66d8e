// Comes in: state.weights as ZeRO keeps them; the step's uses of units, in order.
// Goes out: full weights of the unit in use (ZeRO 3: gathered from their owners, one unit ahead).
// Next: back to optim/units.cpp
#include "src/optim/unit_weights.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "kernels/common/fault.h"
#include "kernels/ops/flat.h"

#include "src/optim/traffic.h"

namespace ogrom {
namespace {

constexpr const char* line = "units.weights";

i64 largest_unit(const ParameterLayout& layout) {
    i64 most = 0;
    for (const Unit& unit : layout.units()) {
        most = std::max(most, count_of(unit.weights));
    }
    return most;
}

}  // namespace

template <class T>
void UnitWeights<T>::declare(Ledger& ledger, const ParameterLayout& layout, const StepOptions& options) {
    if (options.zero < 3) {
        return;
    }
    const i64 size = static_cast<i64>(sizeof(T));
    if (options.regather == Regather::step) {
        ledger.add(line, Tier::device, layout.size() * size,
                   fmt::format("{} P: all units, gathered once a step", size));
        return;
    }
    const i64 largest = largest_unit(layout);
    ledger.add(line, Tier::device, 2 * largest * size,
               fmt::format("2 gathered units x {} elements of the largest x {}", largest, size));
}

// A gather has as many calls under way as it has owners; two gathers at most are under way.
template <class T>
UnitWeights<T>::UnitWeights(const ParameterLayout& layout, const Ownership& ownership, const StepOptions& options,
                            const StepGroups& groups, Arena& arena, const FlatView<T>& weights)
    : layout_(layout),
      ownership_(ownership),
      options_(options),
      shard_(ownership.parts() > 1 ? groups.shard : nullptr),
      stream_(groups.stream),
      weights_(weights),
      calls_(std::numeric_limits<i64>::max() / 2) {
    if (options.zero == 3) {
        buffer_ = arena.take<T>(line);
        buffer_elements_ = largest_unit(layout);
    }
}

template <class T>
void UnitWeights<T>::begin(std::span<const UnitUse> uses) {
    OGROM_ASSERT(calls_.empty());
    calls_.reset_clock();
    if (options_.zero < 3) {
        return;
    }
    plan_ = plan_gathers(layout_, uses, options_.regather);
    complete_at_.clear();
    issue_due(0);
}

template <class T>
void UnitWeights<T>::issue_due(i64 at) {
    while (complete_at_.size() < plan_.gathers.size() && plan_.gathers[complete_at_.size()].issue_at <= at) {
        issue(plan_.gathers[complete_at_.size()]);
    }
}

template <class T>
T* UnitWeights<T>::place(const Gather& gather, std::size_t range) const {
    if (options_.regather == Regather::step) {
        return buffer_.data() + gather.ranges[range].first;
    }
    T* start = buffer_.data() + gather.buffer * buffer_elements_;
    for (std::size_t r = 0; r < range; ++r) {
        start += gather.ranges[r].count();
    }
    return start;
}

template <class T>
void UnitWeights<T>::issue(const Gather& gather) {
    i64 number = 0;
    const bool stale = fault_active("zero3_gather_stale") && fills_[static_cast<std::size_t>(gather.buffer)] > 0;
    for (std::size_t r = 0; r < gather.ranges.size() && !stale; ++r) {
        const FlatRange range = gather.ranges[r];
        T* const start = place(gather, r);
        for (const OwnedPiece& piece : ownership_.pieces(range)) {
            T* const to = start + piece.range.first - range.first;
            const i64 n = piece.range.count();
            if (shard_ == nullptr || piece.owner == shard_->rank()) {
                ops::copy<T>(stream_, to, weights_.locate(piece.range), n);
            }
            if (shard_ != nullptr) {
                number = calls_.add(shard_->broadcast(to, n, dtype_of<T>(), piece.owner, labels::parameter_gather));
            }
        }
    }
    ++fills_[static_cast<std::size_t>(gather.buffer)];
    complete_at_.push_back(number);
    if (!options_.overlap) {
        calls_.drain();
    }
}

template <class T>
std::array<const T*, 2> UnitWeights<T>::acquire(i64 at, const UnitUse& use) {
    const Unit& unit = layout_.units()[static_cast<std::size_t>(use.unit)];
    const bool reads = reads_weights(unit.kind, use.use);
    std::array<const T*, 2> pointers{};
    if (options_.zero < 3) {
        for (std::size_t r = 0; r < unit.weights.size() && reads; ++r) {
            pointers[r] = weights_.locate(unit.weights[r]);
        }
        return pointers;
    }
    issue_due(at);
    if (!reads) {
        return pointers;
    }
    const auto index = static_cast<std::size_t>(plan_.gather_of_use[static_cast<std::size_t>(at)]);
    calls_.wait_for(complete_at_[index]);
    if (options_.regather == Regather::step) {
        for (std::size_t r = 0; r < unit.weights.size(); ++r) {
            pointers[r] = buffer_.data() + unit.weights[r].first;
        }
        return pointers;
    }
    for (std::size_t r = 0; r < unit.weights.size(); ++r) {
        pointers[r] = place(plan_.gathers[index], r);
    }
    return pointers;
}

template class UnitWeights<float>;
template class UnitWeights<double>;
template class UnitWeights<Bf16>;
template class UnitWeights<Fp16>;

}  // namespace ogrom
