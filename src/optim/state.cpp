#include "src/optim/state.h"

#include <fmt/format.h>
#include <type_traits>
#include <utility>

#include "kernels/ops/flat.h"

namespace ogrom {

StepPlace StepGroups::place() const {
    StepPlace place;
    if (shard != nullptr) {
        place.part = shard->rank();
        place.parts = shard->size();
    }
    if (replica != nullptr) {
        place.replica = replica->rank();
        place.replicas = replica->size();
    }
    return place;
}

template <class T>
FlatView<T>::FlatView(std::span<T> data, std::vector<FlatRange> ranges) : data_(data), ranges_(std::move(ranges)) {
    OGROM_ASSERT(static_cast<i64>(data_.size()) == count_of(ranges_));
}

template <class T>
T* FlatView<T>::locate(FlatRange range) const {
    i64 before = 0;
    for (const FlatRange& held : ranges_) {
        if (range.first >= held.first && range.last <= held.last) {
            return data_.data() + before + range.first - held.first;
        }
        before += held.count();
    }
    fail(ExitCode::peer,
         fmt::format("elements [{}, {}) are not held by this rank in one piece", range.first, range.last));
}

std::vector<FlatRange> weight_ranges(const ParameterLayout& layout, const Ownership& ownership, int zero, int part) {
    return zero == 3 ? ownership.ranges(part) : std::vector<FlatRange>{{0, layout.size()}};
}

std::vector<FlatRange> gradient_ranges(const ParameterLayout& layout, const Ownership& ownership, int zero, int part) {
    return zero >= 2 ? ownership.gradient_ranges(part) : std::vector<FlatRange>{{0, layout.gradient_size()}};
}

std::vector<FlatRange> moment_ranges(const ParameterLayout& layout, const Ownership& ownership, int zero, int part) {
    return zero >= 1 ? ownership.ranges(part) : std::vector<FlatRange>{{0, layout.size()}};
}

template <class T>
StepState<T> make_step_state(const ParameterLayout& layout, const Ownership& ownership, int zero, int part,
                             std::span<T> weights, std::span<GradientOf<T>> gradients, std::span<GradientOf<T>> moment1,
                             std::span<GradientOf<T>> moment2, std::span<GradientOf<T>> master) {
    const std::vector<FlatRange> updated = moment_ranges(layout, ownership, zero, part);
    const auto view = [&](std::span<GradientOf<T>> data) {
        return data.empty() ? FlatView<GradientOf<T>>() : FlatView<GradientOf<T>>(data, updated);
    };
    StepState<T> state;
    state.weights = FlatView<T>(weights, weight_ranges(layout, ownership, zero, part));
    state.gradients = FlatView<GradientOf<T>>(gradients, gradient_ranges(layout, ownership, zero, part));
    state.moment1 = view(moment1);
    state.moment2 = view(moment2);
    state.master = view(master);
    return state;
}

template <class T>
void start_state(const StepState<T>& state, const ParameterLayout& layout, const HostWindow& window, Stream stream,
                 u64 seed) {
    using Held = GradientOf<T>;
    const auto draw = [&](const FlatView<Held>& view) {
        for (const FlatRange& range : view.ranges()) {
            window.write(view.locate(range), range.count(), [&](Held* host, i64 first, i64 n) {
                initialise(host, {range.first + first, range.first + first + n}, layout, seed);
            });
        }
    };
    if constexpr (std::is_same_v<T, Held>) {
        draw(state.weights);
    } else {
        draw(state.master);
        for (const FlatRange& range : state.weights.ranges()) {
            window.write(state.weights.locate(range), range.count(), [&](T* host, i64 first, i64 n) {
                std::vector<Held> drawn(static_cast<std::size_t>(n));
                initialise(drawn.data(), {range.first + first, range.first + first + n}, layout, seed);
                ops::cast(Stream{}, host, drawn.data(), n);
            });
        }
    }
    set_zero(stream, state.moment1.data());
    set_zero(stream, state.moment2.data());
}

StateBytes state_bytes(const ParameterLayout& layout, const Ownership& ownership, int zero, int part, i64 weight_bytes,
                       i64 gradient_bytes) {
    return {count_of(weight_ranges(layout, ownership, zero, part)) * weight_bytes,
            count_of(gradient_ranges(layout, ownership, zero, part)) * gradient_bytes,
            count_of(moment_ranges(layout, ownership, zero, part)) * gradient_bytes};
}

template class FlatView<float>;
template class FlatView<double>;
template class FlatView<Bf16>;
template class FlatView<Fp16>;
#define OGROM_INSTANTIATE(T)                                                                                   \
    template StepState<T> make_step_state<T>(const ParameterLayout&, const Ownership&, int, int, std::span<T>, \
                                             std::span<GradientOf<T>>, std::span<GradientOf<T>>,               \
                                             std::span<GradientOf<T>>, std::span<GradientOf<T>>);              \
    template void start_state<T>(const StepState<T>&, const ParameterLayout&, const HostWindow&, Stream, u64)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
