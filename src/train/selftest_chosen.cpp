#include "src/train/selftest_chosen.h"

#include <algorithm>

namespace ogrom {
namespace {

constexpr i64 odd = 0, even = 1;  // of selftest_models()

constexpr const char* fixed_order = ", fixed order";

enum class Sums { fixed, any };
enum class Rows { whole, cut };  // of the sequence, over tensor ranks

struct Mesh3 {
    i64 pipeline, data, tensor;
};

ChosenLayout choose(std::string_view why, i64 model, Mesh3 mesh, i64 zero, Sums sums) {
    ChosenLayout chosen{{}, why};
    SelftestLayout& l = chosen.layout;
    l.model = model;
    l.pipeline = mesh.pipeline;
    l.data = mesh.data;
    l.tensor = mesh.tensor;
    l.zero = zero;
    l.deterministic = sums == Sums::fixed;
    l.tied = false;
    const i64 samples = l.sizes().batch / l.data;  // of a rank
    l.micro_batch = std::max<i64>(1, samples / l.pipeline);
    return chosen;
}

ChosenLayout with(ChosenLayout chosen, Rows rows) {
    chosen.layout.sequence_parallel = rows == Rows::cut;
    return chosen;
}
ChosenLayout with(ChosenLayout chosen, PipelineSchedule schedule) {
    chosen.layout.schedule = schedule;
    return chosen;
}
ChosenLayout tied(ChosenLayout chosen) {
    chosen.layout.tied = true;
    return chosen;
}
ChosenLayout replicated(ChosenLayout chosen) {
    chosen.layout.replicas = true;
    return chosen;
}

std::vector<ChosenLayout> of_two() {
    return {
        choose("tp: all_reduce", odd, {1, 1, 2}, 0, Sums::any),
        with(choose("tp: rows gathered and scattered, fixed order", odd, {1, 1, 2}, 0, Sums::fixed), Rows::cut),
        choose("zero: all_reduce", odd, {1, 2, 1}, 0, Sums::any),
        choose("zero: reduce in fixed order, broadcast", odd, {1, 2, 1}, 1, Sums::fixed),
        choose("zero: weights gathered by broadcast", odd, {1, 2, 1}, 3, Sums::any),
        tied(choose("pp: messages both ways; tie: all_reduce", odd, {2, 1, 1}, 0, Sums::any)),
        with(choose("pp: messages around the ring", even, {2, 1, 1}, 0, Sums::any), PipelineSchedule::interleaved),
    };
}

std::vector<ChosenLayout> of_four() {
    return {
        replicated(choose("replica: all_reduce beside zero: reduce, broadcast", odd, {1, 4, 1}, 2, Sums::any)),
        replicated(choose("the same in fixed order with gathered weights", odd, {1, 4, 1}, 3, Sums::fixed)),
        choose("zero over 4 ranks: all_reduce as reduce and broadcast", odd, {1, 4, 1}, 0, Sums::fixed),
        with(choose("tp over 4 ranks: rows gathered and scattered", even, {1, 1, 4}, 0, Sums::any), Rows::cut),
        tied(with(choose("pp and tp: messages between calls of tp", odd, {2, 1, 2}, 0, Sums::any), Rows::cut)),
        tied(with(choose("pp and dp: tie of the owned part alone", odd, {2, 2, 1}, 1, Sums::any),
                  PipelineSchedule::zero_bubble)),
        tied(choose("pp over 4 stages: tie of ranks with others between", even, {4, 1, 1}, 0, Sums::any)),
        choose("dp and tp: ranks of zero that are no neighbours", odd, {1, 2, 2}, 2, Sums::fixed),
    };
}

std::vector<ChosenLayout> of_eight() {
    return {
        tied(with(choose("all axes at once", odd, {2, 2, 2}, 3, Sums::any), Rows::cut)),
        choose("zero over 8 ranks: all_reduce", even, {1, 8, 1}, 0, Sums::any),
        replicated(choose("zero over 4, replica over 2", even, {1, 8, 1}, 3, Sums::fixed)),
        choose("tp over 8 ranks: all_reduce", even, {1, 1, 8}, 0, Sums::any),
        replicated(with(choose("replica and tp in fixed order", odd, {1, 4, 2}, 1, Sums::fixed), Rows::cut)),
        tied(with(choose("pp over 4 stages beside dp", even, {4, 2, 1}, 2, Sums::any), PipelineSchedule::gpipe)),
        tied(with(choose("pp over 8 stages", even, {8, 1, 1}, 0, Sums::any), PipelineSchedule::zero_bubble)),
    };
}

}  // namespace

std::vector<ChosenLayout> selftest_chosen(i64 ranks) {
    return ranks == 2 ? of_two() : ranks == 4 ? of_four() : ranks == 8 ? of_eight() : std::vector<ChosenLayout>{};
}

std::set<std::string> axis_calls(const SelftestLayout& layout) {
    std::set<std::string> calls;
    const std::string order = layout.deterministic ? fixed_order : "";
    if (layout.tensor > 1) {
        calls.insert("tp: all_reduce" + order);
        if (layout.sequence_parallel) {
            calls.insert({"tp: all_gather_batched", "tp: reduce_scatter_batched" + order});
        }
    }
    const i64 replicas = layout.replicas ? 2 : 1;
    if (layout.data / replicas > 1) {
        // In fixed order an all_reduce of ZeRO 0 is made of the other two, so that each part has one owner.
        const bool whole = layout.zero == 0 && !layout.deterministic;
        calls.merge(whole ? std::set<std::string>{"zero: all_reduce"}
                          : std::set<std::string>{"zero: reduce" + order, "zero: broadcast"});
    }
    if (replicas > 1) {
        calls.insert("replica: all_reduce" + order);
    }
    if (layout.pipeline > 1) {
        calls.insert({"pp forward: send", "pp backward: send"});
        if (layout.tied) {
            calls.insert(std::string("tie: all_reduce") + fixed_order);  // whatever the run asks for
        }
    }
    return calls;
}

const std::set<std::string>& all_axis_calls() {
    static const std::set<std::string> all = [] {
        std::set<std::string> calls;
        for (const i64 ranks : {2, 4, 8}) {
            for (const SelftestLayout& layout : selftest_layouts(ranks, Coverage::pairwise)) {
                calls.merge(axis_calls(layout));
            }
        }
        return calls;
    }();
    return all;
}

}  // namespace ogrom
