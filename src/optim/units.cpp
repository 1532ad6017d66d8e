// Comes in: acquire and release of units in the order of the step's program. Goes out: pointers to weights to read and
// gradients to add to; state.gradients summed over data ranks on their owners.
// Next: optim/unit_weights.cpp, optim/unit_gradients.cpp, then optim/join.cpp
#include "src/optim/units.h"

#include <algorithm>
#include <utility>

#include "kernels/common/fault.h"
#include "kernels/ops/norm.h"

#include "src/device/buffer.h"
#include "src/optim/unit_gradients.h"
#include "src/optim/unit_weights.h"

namespace ogrom {
namespace {

constexpr const char* mark_line = "gradients.nonfinite";
constexpr int place_bits = 40;              // of a place within a unit
constexpr i64 most_checks = (1 << 23) - 1;  // of a step, told apart

// No other rank's numbers reach these gradients.
bool alone(const StepGroups& groups) {
    const auto one = [](const Communicator* axis) { return axis == nullptr || axis->size() == 1; };
    return one(groups.shard) && one(groups.replica) && one(groups.tensor) && one(groups.tie) && one(groups.world);
}

}  // namespace

template <class T>
struct ParameterUnits<T>::Impl {
    using G = GradientOf<T>;
    const ParameterLayout& layout;
    const StepGroups groups;
    UnitWeights<T> weights;
    UnitGradients<G> gradients;
    std::vector<UnitUse> uses;
    std::size_t at = 0;  // next use, or the one in use
    bool in_use = false;
    UnitPointers<T> pointers;
    struct Check {
        FlatRange range;
        const G* values;
    };
    std::vector<Check> checked;  // in this step, in order
    std::span<u64> mark;         // one, where the kernels run: (most_checks - check, place + 1), the largest counts
    const bool late;             // what this rank alone has made is there when somebody asks: no pass over it before
    UnitHook<G> hook;

    Impl(const ParameterLayout& layout_, const Ownership& ownership, const StepOptions& options,
         const StepGroups& groups_, Arena& arena, const StepState<T>& state)
        : layout(layout_),
          groups(groups_),
          weights(layout_, ownership, options, groups_, arena, state.weights),
          gradients(layout_, ownership, options, groups_, arena, state.gradients),
          mark(arena.take<u64>(mark_line)),
          late(options.way == GradientWay::direct && alone(groups)) {}

    // The tensor of a unit's gradient range: behind the flat buffer lies the head's part of the tied table.
    [[nodiscard]] FlatRange in_layout(FlatRange range) const {
        const i64 shift = range.first >= layout.size() ? layout.tied_table().first - layout.size() : 0;
        return {range.first + shift, range.last + shift};
    }

    void check_finite(FlatRange range, const G* values) {
        checked.push_back({range, values});
        if (!late) {
            note_nonfinite(static_cast<i64>(checked.size()) - 1);
        }
    }
    // Notes the last NaN or Inf of the range under the number of the check: of an earlier check counts before a later
    // one, since the backward pass goes from the end and everything after the first may only have caught it.
    void note_nonfinite(i64 check) const {
        const Check& of = checked[static_cast<std::size_t>(check)];
        const i64 rank = fault_active("nonfinite_checks_mixed") ? 0 : check;
        const u64 base = static_cast<u64>(most_checks - std::min<i64>(most_checks, rank)) << place_bits;
        ops::last_nonfinite<G>(groups.stream, mark.data(), of.values, of.range.count(), base);
    }

    // Id of the parameter that the mark of this step is in; -1: all were finite. Waits for the stream.
    [[nodiscard]] i64 nonfinite_parameter() const {
        for (std::size_t check = 0; late && check < checked.size(); ++check) {
            note_nonfinite(static_cast<i64>(check));
        }
        u64 key = 0;
        copy_bytes(groups.stream, &key, mark.data(), static_cast<i64>(sizeof key));
        wait(groups.stream);
        if (key == 0) {
            return -1;
        }
        const auto check = static_cast<std::size_t>(most_checks - static_cast<i64>(key >> place_bits));
        const i64 flat =
            in_layout(checked[check].range).first + static_cast<i64>(key & ((u64{1} << place_bits) - 1)) - 1;
        for (const LocalTensor& tensor : layout.tensors()) {
            if (flat >= tensor.offset && flat < tensor.offset + tensor.count) {
                return tensor.parameter->id;
            }
        }
        return -1;
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
    UnitGradients<GradientOf<T>>::declare(ledger, layout, options, place);
    ledger.add(mark_line, Tier::device, static_cast<i64>(sizeof(u64)), "where a gradient was not finite");
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
    u.checked.clear();
    set_zero(u.groups.stream, u.mark);
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
            GradientOf<T>* const values = u.pointers.gradients[r];
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
bool ParameterUnits<T>::plain(i64 count) const {
    const Impl& u = *impl_;
    OGROM_ASSERT(!u.in_use && u.at + static_cast<std::size_t>(count) <= u.uses.size());
    if (u.hook || !u.weights.full() || u.gradients.staged()) {
        return false;
    }
    for (std::size_t at = u.at; !u.late && at < u.at + static_cast<std::size_t>(count); ++at) {
        if (writes_gradients(u.uses[at].use) && u.gradients.complete(static_cast<i64>(at))) {
            return false;
        }
    }
    return true;
}

template <class T>
void ParameterUnits<T>::pass_over(i64 count) {
    for (i64 n = 0; n < count; ++n) {
        const UnitUse use = impl_->uses[impl_->at];
        acquire(use.unit, use.use);
        release(use.unit, use.use);
    }
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
    const i64 parameter = impl_->nonfinite_parameter();
    const i64 mine = parameter < 0 ? 0 : (world.size() - world.rank()) * half + parameter;
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
void ParameterUnits<T>::set_hook(UnitHook<GradientOf<T>> hook) {
    impl_->hook = std::move(hook);
}

template class ParameterUnits<float>;
template class ParameterUnits<double>;
template class ParameterUnits<Bf16>;
template class ParameterUnits<Fp16>;

}  // namespace ogrom
