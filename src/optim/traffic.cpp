#include "src/optim/traffic.h"

#include <algorithm>

#include "src/optim/gathers.h"
#include "src/optim/join.h"
#include "src/optim/unit_gradients.h"

namespace ogrom {
namespace {

// Elements that a rank sends in one all_reduce (comm/communicator.h).
i64 all_reduce_elements(i64 count, int ranks, int rank) {
    const i64 part = ceil_div(count, ranks);
    const i64 own = std::clamp<i64>(count - rank * part, 0, part);
    return count - own + (ranks - 1) * own;
}

i64 all_reduce_elements(const std::vector<FlatRange>& pieces, int ranks, int rank) {
    i64 n = 0;
    for (const FlatRange& piece : pieces) {
        n += all_reduce_elements(piece.count(), ranks, rank);
    }
    return n;
}

struct Count {
    const ParameterLayout& layout;
    const Ownership& ownership;
    const StepOptions& options;
    const StepPlace& place;
    std::span<const UnitUse> uses;

    [[nodiscard]] i64 owned(const std::vector<FlatRange>& ranges) const {
        i64 n = 0;
        for (const FlatRange& range : ranges) {
            n += count_of(intersect(ownership.gradient_ranges(place.part), range));
        }
        return n;
    }

    // Elements that this rank gives to the owners over all micro-batches.
    [[nodiscard]] i64 reduced() const {
        i64 n = 0;
        if (options.way == GradientWay::direct) {
            return layout.gradient_size() - ownership.gradient_shard_size(place.part);
        }
        for (const UnitUse& use : uses) {
            const Unit& unit = layout.units()[static_cast<std::size_t>(use.unit)];
            n += writes_gradients(use.use) ? count_of(unit.gradients) - owned(unit.gradients) : 0;
        }
        return n;
    }

    [[nodiscard]] i64 gathered() const {
        i64 n = 0;
        for (const Gather& gather : plan_gathers(layout, uses, options.regather).gathers) {
            n += (place.parts - 1) * owned(gather.ranges);
        }
        return n;
    }

    [[nodiscard]] i64 replicas() const {
        const i64 piece = reduction_extents(layout, options, place).piece;
        const bool all = options.zero == 0 && options.way == GradientWay::direct;
        const auto kept =
            all ? std::vector<FlatRange>{{0, layout.gradient_size()}} : ownership.gradient_ranges(place.part);
        i64 n = 0;
        for (const FlatRange& range : kept) {
            n += all_reduce_elements(make_pieces(range, piece), place.replicas, place.replica);
        }
        return n;
    }
};

}  // namespace

std::map<std::string, i64, std::less<>> step_traffic(const ParameterLayout& layout, const Ownership& ownership,
                                                     const StepOptions& options, const StepPlace& place,
                                                     std::span<const UnitUse> uses, i64 weight_bytes,
                                                     i64 gradient_bytes) {
    const Count count{layout, ownership, options, place, uses};
    std::map<std::string, i64, std::less<>> elements;
    const bool trains =
        std::any_of(uses.begin(), uses.end(), [](const UnitUse& use) { return writes_gradients(use.use); });
    const i64 others = place.parts - 1;
    if (others > 0 && options.zero == 3) {
        elements[labels::parameter_gather] = count.gathered();
    }
    if (trains && others > 0) {
        if (options.zero == 0 && options.way == GradientWay::direct) {
            const i64 piece = reduction_extents(layout, options, place).piece;
            elements[labels::gradient_all_reduce] =
                all_reduce_elements(make_pieces({0, layout.gradient_size()}, piece), place.parts, place.part);
        } else {
            elements[labels::gradient_reduce] = count.reduced();
        }
        if (options.zero == 0 && options.way == GradientWay::staged) {
            elements[labels::gradient_broadcast] = others * ownership.gradient_shard_size(place.part);
        }
        if (options.zero == 1 || options.zero == 2) {
            elements[labels::parameter_broadcast] = others * ownership.shard_size(place.part);
        }
    }
    if (trains && place.replicas > 1) {
        elements[labels::replica_gradient] = count.replicas();
    }
    if (trains && tied_over_stages(layout)) {
        constexpr int stages = 2;
        const int rank = layout.units().front().kind == UnitKind::embedding ? 0 : 1;
        elements[labels::tied_gradient] =
            all_reduce_elements(tied_pieces(layout, ownership, options, place), stages, rank);
    }
    if (trains) {
        elements[labels::replicated_gradient] = all_reduce_elements(
            count_of(replicated_pieces(layout, ownership, options, place)), layout.part().size, layout.part().rank);
    }
    std::erase_if(elements, [](const auto& entry) { return entry.second == 0; });
    for (auto& [label, n] : elements) {
        const bool of_weights = label == labels::parameter_gather || label == labels::parameter_broadcast;
        n *= of_weights ? weight_bytes : gradient_bytes;
    }
    return elements;
}

}  // namespace ogrom
