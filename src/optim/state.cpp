#include "src/optim/state.h"

#include <fmt/format.h>
#include <utility>

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
                             std::span<T> weights, std::span<T> gradients, std::span<T> moment1, std::span<T> moment2) {
    const std::vector<FlatRange> moments = moment_ranges(layout, ownership, zero, part);
    StepState<T> state;
    state.weights = FlatView<T>(weights, weight_ranges(layout, ownership, zero, part));
    state.gradients = FlatView<T>(gradients, gradient_ranges(layout, ownership, zero, part));
    state.moment1 = moment1.empty() ? FlatView<T>() : FlatView<T>(moment1, moments);
    state.moment2 = moment2.empty() ? FlatView<T>() : FlatView<T>(moment2, moments);
    return state;
}

StateBytes state_bytes(const ParameterLayout& layout, const Ownership& ownership, int zero, int part,
                       i64 element_bytes) {
    return {count_of(weight_ranges(layout, ownership, zero, part)) * element_bytes,
            count_of(gradient_ranges(layout, ownership, zero, part)) * element_bytes,
            count_of(moment_ranges(layout, ownership, zero, part)) * element_bytes};
}

template class FlatView<float>;
template class FlatView<double>;
template StepState<float> make_step_state<float>(const ParameterLayout&, const Ownership&, int, int, std::span<float>,
                                                 std::span<float>, std::span<float>, std::span<float>);
template StepState<double> make_step_state<double>(const ParameterLayout&, const Ownership&, int, int,
                                                   std::span<double>, std::span<double>, std::span<double>,
                                                   std::span<double>);

}  // namespace ogrom
