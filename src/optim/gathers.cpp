#include "src/optim/gathers.h"

#include <algorithm>

namespace ogrom {
namespace {

constexpr i64 nobody = -1;

// micro_batch: two buffers take turns; a unit that is still in one of them is not gathered again.
class TwoBuffers {
public:
    explicit TwoBuffers(const ParameterLayout& layout) : layout_(layout) {}

    void use(GatherPlan& plan, i64 at, i64 unit) {
        for (std::size_t b = 0; b < 2; ++b) {
            if (unit_[b] == unit) {
                take(plan, at, b);
                return;
            }
        }
        const std::size_t b = 1 - current_;
        // The buffer is free after its last use; a gather goes out one ahead, so not before the previous one was read.
        const i64 ahead = plan.gathers.empty() ? 0 : plan.gathers.back().needed_at;
        const i64 issue = std::min(at, std::max(last_use_[b] + 1, plan.gathers.size() < 2 ? 0 : ahead));
        unit_[b] = unit;
        gather_[b] = static_cast<i64>(plan.gathers.size());
        plan.gathers.push_back(
            {unit, static_cast<i64>(b), layout_.units()[static_cast<std::size_t>(unit)].weights, issue, at});
        take(plan, at, b);
    }

private:
    void take(GatherPlan& plan, i64 at, std::size_t b) {
        current_ = b;
        last_use_[b] = at;
        plan.buffer_of_use[static_cast<std::size_t>(at)] = static_cast<i64>(b);
        plan.gather_of_use[static_cast<std::size_t>(at)] = gather_[b];
    }
    const ParameterLayout& layout_;
    std::size_t current_ = 1;
    std::array<i64, 2> unit_{nobody, nobody}, gather_{nobody, nobody}, last_use_{-1, -1};
};

// step: each range once, at its first use.
class WholeBuffer {
public:
    explicit WholeBuffer(const ParameterLayout& layout) : layout_(layout), gather_(layout.units().size(), nobody) {}

    void use(GatherPlan& plan, i64 at, i64 unit) {
        const auto u = static_cast<std::size_t>(unit);
        if (gather_[u] == nobody) {
            Gather gather{unit, 0, missing(layout_.units()[u]), 0, at};
            // A head whose table is there needs its norm alone.
            gather.issue_at = plan.gathers.empty() ? 0 : plan.gathers.back().needed_at;
            gather_[u] = static_cast<i64>(plan.gathers.size());
            held_.insert(held_.end(), gather.ranges.begin(), gather.ranges.end());
            plan.gathers.push_back(std::move(gather));
        }
        plan.buffer_of_use[static_cast<std::size_t>(at)] = 0;
        plan.gather_of_use[static_cast<std::size_t>(at)] = gather_[u];
    }

private:
    [[nodiscard]] std::vector<FlatRange> missing(const Unit& unit) const {
        std::vector<FlatRange> ranges;
        for (const FlatRange& range : unit.weights) {
            const bool there = std::any_of(held_.begin(), held_.end(), [&](const FlatRange& held) {
                return range.first >= held.first && range.last <= held.last;
            });
            if (!there) {
                ranges.push_back(range);
            }
        }
        return ranges;
    }
    const ParameterLayout& layout_;
    std::vector<i64> gather_;
    std::vector<FlatRange> held_;
};

template <class Buffers>
GatherPlan walk(const ParameterLayout& layout, std::span<const UnitUse> uses) {
    GatherPlan plan;
    plan.buffer_of_use.assign(uses.size(), nobody);
    plan.gather_of_use.assign(uses.size(), nobody);
    Buffers buffers(layout);
    for (std::size_t at = 0; at < uses.size(); ++at) {
        const UnitUse& use = uses[at];
        if (reads_weights(layout.units()[static_cast<std::size_t>(use.unit)].kind, use.use)) {
            buffers.use(plan, static_cast<i64>(at), use.unit);
        }
    }
    return plan;
}

}  // namespace

GatherPlan plan_gathers(const ParameterLayout& layout, std::span<const UnitUse> uses, Regather regather) {
    return regather == Regather::step ? walk<WholeBuffer>(layout, uses) : walk<TwoBuffers>(layout, uses);
}

}  // namespace ogrom
