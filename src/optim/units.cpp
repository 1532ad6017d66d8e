// Comes in: acquire and release of units in the order of the step's program. Goes out: pointers to weights to read and
// gradients to add to; state.gradients summed over data ranks on their owners.
// Next: optim/unit_weights.cpp, optim/unit_gradients.cpp, then optim/join.cpp
#include "src/optim/units.h"

#include <utility>

#include "kernels/ops/norm.h"

#include "src/optim/unit_gradients.h"
#include "src/optim/unit_weights.h"

namespace ogrom {

template <class T>
struct ParameterUnits<T>::Impl {
    const ParameterLayout& layout;
    const StepGroups groups;
    UnitWeights<T> weights;
    UnitGradients<T> gradients;
    std::vector<UnitUse> uses;
    std::size_t at = 0;  // next use, or the one in use
    bool in_use = false;
    UnitPointers<T> pointers;
    i64 nonfinite = -1;  // id of a parameter
    UnitHook<T> hook;

    Impl(const ParameterLayout& layout_, const Ownership& ownership, const StepOptions& options,
         const StepGroups& groups_, Arena& arena, const StepState<T>& state)
        : layout(layout_),
          groups(groups_),
          weights(layout_, ownership, options, groups_, arena, state.weights),
          gradients(layout_, ownership, options, groups_, arena, state.gradients) {}

    // The tensor of a unit's gradient range: behind the flat buffer lies the head's part of the tied table.
    [[nodiscard]] FlatRange in_layout(FlatRange range) const {
        const i64 shift = range.first >= layout.size() ? layout.tied_table().first - layout.size() : 0;
        return {range.first + shift, range.last + shift};
    }

    // First parameter of the range with a NaN or Inf of this rank, looked for from the end: the backward pass walks
    // that way, and everything after the first one may only have caught it.
    void check_finite(FlatRange range, const T* values) {
        const FlatRange flat = in_layout(range);
        const std::span<const LocalTensor> tensors = layout.tensors();
        for (std::size_t t = tensors.size(); t-- > 0 && nonfinite < 0;) {
            const i64 from = std::max(flat.first, tensors[t].offset);
            const i64 to = std::min(flat.last, tensors[t].offset + tensors[t].count);
            if (from < to && !ops::all_finite<T>(groups.stream, values + from - flat.first, to - from)) {
                nonfinite = tensors[t].parameter->id;
            }
        }
    }

    void poll() {
        weights.poll();
        gradients.poll();
    }
};

template <class T>
void ParameterUnits<T>::declare(Ledger& ledger, const ParameterLayout& layout, const StepOptions& options,
                                const StepPlace& place) {
    UnitWeights<T>::declare(ledger, layout, options);
    UnitGradients<T>::declare(ledger, layout, options, place);
}

template <class T>
ParameterUnits<T>::ParameterUnits(const ParameterLayout& layout, const Ownership& ownership, const StepOptions& options,
                                  const StepGroups& groups, Arena& arena, const StepState<T>& state)
    : impl_(std::make_unique<Impl>(layout, ownership, options, groups, arena, state)) {}

template <class T>
ParameterUnits<T>::~ParameterUnits() = default;

template <class T>
void ParameterUnits<T>::begin_step(std::span<const UnitUse> uses) {
    Impl& u = *impl_;
    OGROM_ASSERT(!u.in_use);
    u.uses.assign(uses.begin(), uses.end());
    u.at = 0;
    u.nonfinite = -1;
    u.gradients.begin(u.uses);
    u.weights.begin(u.uses);
}

template <class T>
UnitPointers<T> ParameterUnits<T>::acquire(i64 unit, Use use) {
    Impl& u = *impl_;
    OGROM_ASSERT(!u.in_use && u.at < u.uses.size());
    OGROM_ASSERT(u.uses[u.at].unit == unit && u.uses[u.at].use == use);  // the stage walks the program it was told
    u.in_use = true;
    u.pointers.weights = u.weights.acquire(static_cast<i64>(u.at), u.uses[u.at]);
    u.pointers.gradients = u.gradients.acquire(u.uses[u.at]);
    return u.pointers;
}

template <class T>
void ParameterUnits<T>::release(i64 unit, Use use) {
    Impl& u = *impl_;
    OGROM_ASSERT(u.in_use && u.uses[u.at].unit == unit && u.uses[u.at].use == use);
    const auto at = static_cast<i64>(u.at++);
    u.in_use = false;
    if (writes_gradients(use)) {
        const Unit& of = u.layout.units()[static_cast<std::size_t>(unit)];
        const bool complete = u.gradients.complete(at);
        for (std::size_t r = of.gradients.size(); r-- > 0;) {
            T* const values = u.pointers.gradients[r];
            if (u.hook) {
                u.hook(unit, of.gradients[r], values);
            }
            if (complete) {
                u.check_finite(of.gradients[r], values);
            }
        }
        if (complete) {
            u.gradients.reduce(at, {unit, use});
        }
    }
    progress();
}

template <class T>
void ParameterUnits<T>::progress() {
    Impl& u = *impl_;
    const bool shards = u.groups.shard != nullptr && u.groups.shard->size() > 1;
    if (Communicator* const moved = shards ? u.groups.shard : u.groups.world) {
        moved->progress();  // of MPI: everything of this rank, boundaries of the pipeline too
    }
    u.poll();
}

template <class T>
void ParameterUnits<T>::finish() {
    Impl& u = *impl_;
    OGROM_ASSERT(!u.in_use && u.at == u.uses.size());
    u.weights.drain();
    u.gradients.finish();
}

template <class T>
void ParameterUnits<T>::abandon() {
    Impl& u = *impl_;
    u.weights.drain();
    u.gradients.drain();
    u.in_use = false;
    u.uses.clear();
    u.at = 0;
}

template <class T>
NonFiniteReport ParameterUnits<T>::agree_nonfinite(Communicator& world, const ParameterTable& table) const {
    // One maximum over ranks carries both: the lowest rank gives the largest number, the parameter sits in the low
    // half.
    constexpr i64 half = i64{1} << 32;
    const i64 mine = impl_->nonfinite < 0 ? 0 : (world.size() - world.rank()) * half + impl_->nonfinite;
    const i64 agreed = agree_max(world, mine, "non-finite gradient");
    if (agreed == 0) {
        return {};
    }
    return {true, world.size() - static_cast<int>(agreed / half),
            table.rows()[static_cast<std::size_t>(agreed % half)].name};
}

template <class T>
double ParameterUnits<T>::exposed_s() const {
    return impl_->weights.waited_s() + impl_->gradients.waited_s();
}

template <class T>
void ParameterUnits<T>::set_hook(UnitHook<T> hook) {
    impl_->hook = std::move(hook);
}

template class ParameterUnits<float>;
template class ParameterUnits<double>;

}  // namespace ogrom
