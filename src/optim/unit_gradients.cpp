// Comes in: gradients that a use of a unit adds (direct: to state.gradients; staged: to a working buffer).
// Goes out: state.gradients summed over data ranks and replicas on their owners (ZeRO 0: everywhere).
// Next: back to optim/units.cpp, then optim/join.cpp
#include "src/optim/unit_gradients.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "kernels/common/fault.h"
#include "kernels/ops/flat.h"

#include "src/device/buffer.h"
#include "src/optim/traffic.h"

namespace ogrom {
namespace {

// Calls under way at a time: enough to hide the latency of one behind another. In the fixed order each holds a bucket
// of contributions, otherwise MPI holds a copy of its own.
constexpr i64 fixed_slots = 4, any_slots = 8;
constexpr const char* scratch_line = "gradients.reduction";
constexpr const char* working_line = "units.gradients";
constexpr i64 issued_mark = -1;

i64 largest_gradient(const ParameterLayout& layout) {
    i64 most = 0;
    for (const Unit& unit : layout.units()) {
        most = std::max(most, count_of(unit.gradients));
    }
    return most;
}

}  // namespace

// In the fixed order a bucket is a bound for all contributions to a piece together.
ReductionExtents reduction_extents(const ParameterLayout& layout, const StepOptions& options, const StepPlace& place) {
    ReductionExtents extents;
    const bool fixed = options.order == ReduceOrder::fixed;
    const i64 others = std::max(1, place.parts - 1);
    extents.piece = std::max<i64>(1, fixed ? options.bucket_elements / others : options.bucket_elements);
    extents.piece = std::min(extents.piece, std::max<i64>(1, layout.gradient_size()));
    // Cuts at owners and at units make a few pieces more.
    const i64 pieces =
        ceil_div(layout.gradient_size(), extents.piece) + place.parts + static_cast<i64>(layout.units().size());
    extents.slots = std::min(fixed ? fixed_slots : any_slots, pieces);
    if (fixed) {
        const i64 of_unit = std::min(extents.piece, largest_gradient(layout));
        extents.slot_scratch =
            std::max(reduce_scratch(of_unit, place.parts), fixed_order_scratch(extents.piece, place.replicas));
    }
    return extents;
}

template <class T>
void UnitGradients<T>::declare(Ledger& ledger, const ParameterLayout& layout, const StepOptions& options,
                               const StepPlace& place) {
    const i64 size = static_cast<i64>(sizeof(T));
    if (options.way == GradientWay::staged) {
        const i64 largest = largest_gradient(layout);
        ledger.add(working_line, Tier::device, 2 * largest * size,
                   fmt::format("2 working buffers x {} elements of the largest unit x {}", largest, size));
    }
    if (place.parts == 1 && place.replicas == 1) {
        return;
    }
    const ReductionExtents extents = reduction_extents(layout, options, place);
    if (extents.slot_scratch > 0) {
        ledger.add(
            scratch_line, Tier::device, extents.slots * extents.slot_scratch * size,
            fmt::format("{} calls under way x {} contributions x {}", extents.slots, extents.slot_scratch, size));
    } else {
        ledger.add("gradients.mpi", Tier::baseline,
                   std::min(extents.slots * extents.piece, layout.gradient_size()) * size,
                   fmt::format("MPI's own copies of {} calls under way", extents.slots));
    }
}

template <class T>
UnitGradients<T>::UnitGradients(const ParameterLayout& layout, const Ownership& ownership, const StepOptions& options,
                                const StepGroups& groups, Arena& arena, const FlatView<T>& gradients)
    : layout_(layout),
      ownership_(ownership),
      options_(options),
      place_(groups.place()),
      extents_(reduction_extents(layout, options, place_)),
      shard_(place_.parts > 1 ? groups.shard : nullptr),
      replica_(place_.replicas > 1 ? groups.replica : nullptr),
      stream_(groups.stream),
      gradients_(gradients),
      calls_(extents_.slots) {
    const bool direct = options.way == GradientWay::direct;
    OGROM_ASSERT(!direct || (options.zero <= 1 && options.order == ReduceOrder::any));
    if ((shard_ != nullptr || replica_ != nullptr) && extents_.slot_scratch > 0) {
        scratch_ = arena.take<T>(scratch_line);
    }
    if (direct) {
        buckets_ = make_pieces({0, layout.gradient_size()}, extents_.piece);
    } else {
        const std::span<T> both = arena.take<T>(working_line);
        working_ = {both.first(both.size() / 2), both.last(both.size() / 2)};
    }
}

template <class T>
void UnitGradients<T>::begin(std::span<const UnitUse> uses) {
    OGROM_ASSERT(calls_.empty());
    calls_.reset_clock();
    std::vector<i64> last(layout_.units().size(), -1);
    for (std::size_t at = 0; at < uses.size(); ++at) {
        if (writes_gradients(uses[at].use)) {
            last[static_cast<std::size_t>(uses[at].unit)] = static_cast<i64>(at);
        }
    }
    final_.assign(uses.size(), false);
    for (const i64 at : last) {
        if (at >= 0) {
            final_[static_cast<std::size_t>(at)] = true;
        }
    }
    writes_ = std::any_of(last.begin(), last.end(), [](i64 at) { return at >= 0; });
    if (!writes_) {
        return;
    }
    set_zero(stream_, gradients_.data());
    missing_.clear();
    for (const FlatRange& bucket : buckets_) {
        missing_.push_back(bucket.count());
    }
}

template <class T>
std::array<T*, 2> UnitGradients<T>::acquire(const UnitUse& use) {
    std::array<T*, 2> pointers{};
    if (!writes_gradients(use.use)) {
        return pointers;
    }
    const Unit& unit = layout_.units()[static_cast<std::size_t>(use.unit)];
    if (options_.way == GradientWay::direct) {
        for (std::size_t r = 0; r < unit.gradients.size(); ++r) {
            pointers[r] = gradients_.locate(unit.gradients[r]);
        }
        return pointers;
    }
    turn_ = 1 - turn_;
    calls_.wait_for(working_busy_[turn_]);
    if (!fault_active("staged_buffer_not_cleared")) {
        set_zero(stream_, working_[turn_].first(static_cast<std::size_t>(count_of(unit.gradients))));
    }
    T* start = working_[turn_].data();
    for (std::size_t r = 0; r < unit.gradients.size(); ++r) {
        pointers[r] = start;
        start += unit.gradients[r].count();
    }
    return pointers;
}

template <class T>
bool UnitGradients<T>::complete(i64 at) const {
    return options_.way == GradientWay::staged || final_[static_cast<std::size_t>(at)];
}

template <class T>
void UnitGradients<T>::reduce(i64 at, const UnitUse& use) {
    OGROM_ASSERT(complete(at));
    const Unit& unit = layout_.units()[static_cast<std::size_t>(use.unit)];
    if (options_.way == GradientWay::staged) {
        reduce_unit(unit);
        return;
    }
    for (const FlatRange& range : unit.gradients) {
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            const FlatRange& bucket = buckets_[b];
            missing_[b] -= std::max<i64>(0, std::min(range.last, bucket.last) - std::max(range.first, bucket.first));
        }
    }
    issue_buckets();
}

template <class T>
T* UnitGradients<T>::next_slot() {
    const i64 slot = calls_.claim();
    return scratch_.empty() ? nullptr : scratch_.data() + slot * extents_.slot_scratch;
}

template <class T>
void UnitGradients<T>::issued(Pending call, std::function<void()> complete) {
    calls_.add(std::move(call), std::move(complete));
    if (!options_.overlap) {
        calls_.drain();
    }
}

// Complete buckets, from the end: which these are, and so the order of calls, follows from the program.
template <class T>
void UnitGradients<T>::issue_buckets() {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
        if (missing_[b] != 0) {
            continue;
        }
        missing_[b] = issued_mark;
        const bool dropped = fault_active("bucket_last_dropped") && b + 1 == buckets_.size();
        if (shard_ == nullptr || dropped) {
            continue;
        }
        if (options_.zero == 0) {
            next_slot();
            issued(shard_->all_reduce(gradients_.locate(buckets_[b]), buckets_[b].count(), dtype_of<T>(), ReduceOp::sum,
                                      options_.order, nullptr, labels::gradient_all_reduce));
            continue;
        }
        for (const OwnedPiece& piece : ownership_.pieces(buckets_[b])) {
            next_slot();
            issued(shard_->reduce(gradients_.locate(piece.range), piece.range.count(), dtype_of<T>(), piece.owner,
                                  options_.order, nullptr, labels::gradient_reduce));
        }
    }
}

template <class T>
void UnitGradients<T>::add(FlatRange range, const T* sum) {
    ops::add<T>(stream_, gradients_.locate(range), sum, range.count());
}

// accumulator of the owner += sum over ranks of the working buffer
template <class T>
void UnitGradients<T>::reduce_unit(const Unit& unit) {
    T* start = working_[turn_].data();
    for (const FlatRange& range : unit.gradients) {
        for (const OwnedPiece& piece : ownership_.pieces(range, extents_.piece)) {
            T* const data = start + piece.range.first - range.first;
            if (shard_ == nullptr) {
                add(piece.range, data);
                continue;
            }
            const int root = fault_active("zero2_owner_shifted") ? (piece.owner + 1) % place_.parts : piece.owner;
            T* const slot = next_slot();
            std::function<void()> complete;
            if (piece.owner == place_.part) {
                complete = [this, owned = piece.range, data] { add(owned, data); };
            }
            issued(shard_->reduce(data, piece.range.count(), dtype_of<T>(), root, options_.order, slot,
                                  labels::gradient_reduce),
                   std::move(complete));
        }
        start += range.count();
    }
    working_busy_[turn_] = calls_.issued();
}

// Every replica has the sum over its own group of what this rank keeps of it.
template <class T>
void UnitGradients<T>::sum_over_replicas() {
    const bool all = options_.zero == 0 && options_.way == GradientWay::direct;
    const std::vector<FlatRange> kept = all ? gradients_.ranges() : ownership_.gradient_ranges(place_.part);
    for (const FlatRange& range : kept) {
        for (const FlatRange& piece : make_pieces(range, extents_.piece)) {
            T* const slot = next_slot();
            issued(replica_->all_reduce(gradients_.locate(piece), piece.count(), dtype_of<T>(), ReduceOp::sum,
                                        options_.order, slot, labels::replica_gradient));
        }
    }
    calls_.drain();
}

template <class T>
void UnitGradients<T>::broadcast_parts() {
    for (const OwnedPiece& piece : ownership_.pieces({0, layout_.gradient_size()}, extents_.piece)) {
        next_slot();
        issued(shard_->broadcast(gradients_.locate(piece.range), piece.range.count(), dtype_of<T>(), piece.owner,
                                 labels::gradient_broadcast));
    }
    calls_.drain();
}

template <class T>
void UnitGradients<T>::finish() {
    calls_.drain();
    if (!writes_) {
        return;
    }
    OGROM_ASSERT(std::all_of(missing_.begin(), missing_.end(), [](i64 left) { return left == issued_mark; }));
    if (replica_ != nullptr) {
        sum_over_replicas();
    }
    if (shard_ != nullptr && options_.zero == 0 && options_.way == GradientWay::staged) {
        broadcast_parts();
    }
}

template class UnitGradients<float>;
template class UnitGradients<double>;

}  // namespace ogrom
