// Comes in: state.gradients summed over data ranks. Goes out: the same with tied parts and tensor ranks' shares joined.
// Next: optim/clip.cpp
#include "src/optim/join.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/common/fault.h"
#include "kernels/ops/flat.h"

#include "src/optim/in_flight.h"
#include "src/optim/traffic.h"

namespace ogrom {
namespace {

constexpr const char* tied_line = "gradients.tied";
constexpr const char* packed_line = "gradients.replicated";
constexpr const char* order_line = "gradients.replicated.order";
constexpr i64 tied_slots = 4;  // calls under way
constexpr int two_stages = 2;

}  // namespace

bool tied_over_stages(const ParameterLayout& layout) {
    return layout.tied_table().count() > 0 && layout.gradient_size() == layout.size();
}

std::vector<FlatRange> tied_pieces(const ParameterLayout& layout, const Ownership& ownership,
                                   const StepOptions& options, const StepPlace& place) {
    std::vector<FlatRange> pieces;
    const std::vector<FlatRange> kept = moment_ranges(layout, ownership, options.zero, place.part);
    for (const FlatRange& range : intersect(kept, layout.tied_table())) {
        const std::vector<FlatRange> part = make_pieces(range, options.bucket_elements);
        pieces.insert(pieces.end(), part.begin(), part.end());
    }
    return pieces;
}

std::vector<FlatRange> replicated_pieces(const ParameterLayout& layout, const Ownership& ownership,
                                         const StepOptions& options, const StepPlace& place) {
    std::vector<FlatRange> pieces;
    if (!options.sequence_parallel) {
        return pieces;
    }
    const std::vector<FlatRange> kept = moment_ranges(layout, ownership, options.zero, place.part);
    for (const LocalTensor& tensor : layout.tensors()) {
        if (layout.replicated(tensor)) {
            const auto part = intersect(kept, {tensor.offset, tensor.offset + tensor.count});
            pieces.insert(pieces.end(), part.begin(), part.end());
        }
    }
    return pieces;
}

template <class T>
struct GradientJoin<T>::Impl {
    using G = GradientOf<T>;
    const ParameterLayout& layout;
    const StepOptions options;
    const StepGroups groups;
    const FlatView<G> gradients;
    std::vector<FlatRange> tied, replicated;  // what this rank keeps of them
    std::span<G> tied_scratch, packed, order_scratch;

    void add_head_part() {
        const i64 shift = layout.size() - layout.tied_table().first;
        for (const FlatRange& range : tied) {
            ops::add<G>(groups.stream, gradients.locate(range),
                        gradients.locate({range.first + shift, range.last + shift}), range.count());
        }
    }

    void exchange_tied() {
        OGROM_ASSERT(groups.tie != nullptr && groups.tie->size() == two_stages);
        InFlight calls(tied_slots);
        const i64 each = static_cast<i64>(tied_scratch.size()) / tied_slots;
        for (const FlatRange& range : tied) {
            G* const slot = tied_scratch.data() + calls.claim() * each;
            calls.add(groups.tie->all_reduce(gradients.locate(range), range.count(), dtype_of<G>(), ReduceOp::sum,
                                             ReduceOrder::fixed, slot, labels::tied_gradient));
        }
        calls.drain();
    }

    void sum_replicated() {
        OGROM_ASSERT(groups.tensor != nullptr && groups.tensor->size() == layout.part().size);
        G* to = packed.data();
        for (const FlatRange& range : replicated) {
            ops::copy<G>(groups.stream, to, gradients.locate(range), range.count());
            to += range.count();
        }
        groups.tensor
            ->all_reduce(packed.data(), static_cast<i64>(packed.size()), dtype_of<G>(), ReduceOp::sum, options.order,
                         order_scratch.data(), labels::replicated_gradient)
            .wait();
        const G* from = packed.data();
        for (const FlatRange& range : replicated) {
            ops::copy<G>(groups.stream, gradients.locate(range), from, range.count());
            from += range.count();
        }
    }
};

template <class T>
void GradientJoin<T>::declare(Ledger& ledger, const ParameterLayout& layout, const Ownership& ownership,
                              const StepOptions& options, const StepPlace& place) {
    const i64 size = static_cast<i64>(sizeof(GradientOf<T>));
    const auto tied = tied_pieces(layout, ownership, options, place);
    if (tied_over_stages(layout) && !tied.empty()) {
        const i64 each = fixed_order_scratch(std::max(tied.front().count(), tied.back().count()), two_stages);
        ledger.add(tied_line, Tier::device, tied_slots * each * size,
                   fmt::format("{} calls under way x {} contributions x {}", tied_slots, each, size));
    }
    const i64 packed = count_of(replicated_pieces(layout, ownership, options, place));
    if (packed > 0) {
        ledger.add(packed_line, Tier::device, packed * size, fmt::format("{} elements x {}", packed, size));
    }
    if (packed > 0 && options.order == ReduceOrder::fixed) {
        const i64 scratch = fixed_order_scratch(packed, layout.part().size);
        ledger.add(order_line, Tier::device, scratch * size, fmt::format("{} contributions x {}", scratch, size));
    }
}

template <class T>
GradientJoin<T>::GradientJoin(const ParameterLayout& layout, const Ownership& ownership, const StepOptions& options,
                              const StepGroups& groups, Arena& arena, const StepState<T>& state)
    : impl_(new Impl{layout,
                     options,
                     groups,
                     state.gradients,
                     tied_pieces(layout, ownership, options, groups.place()),
                     replicated_pieces(layout, ownership, options, groups.place()),
                     {},
                     {},
                     {}}) {
    Impl& join = *impl_;
    if (tied_over_stages(layout) && !join.tied.empty()) {
        join.tied_scratch = arena.take<GradientOf<T>>(tied_line);
    }
    if (!join.replicated.empty()) {
        join.packed = arena.take<GradientOf<T>>(packed_line);
    }
    if (!join.replicated.empty() && options.order == ReduceOrder::fixed) {
        join.order_scratch = arena.take<GradientOf<T>>(order_line);
    }
}

template <class T>
GradientJoin<T>::~GradientJoin() = default;

template <class T>
void GradientJoin<T>::run() {
    Impl& join = *impl_;
    if (!join.replicated.empty()) {
        join.sum_replicated();
    }
    if (join.tied.empty() || fault_active("tied_exchange_skipped")) {
        return;
    }
    if (tied_over_stages(join.layout)) {
        join.exchange_tied();
    } else {
        join.add_head_part();
    }
}

template class GradientJoin<float>;
template class GradientJoin<double>;
template class GradientJoin<Bf16>;
template class GradientJoin<Fp16>;

}  // namespace ogrom
