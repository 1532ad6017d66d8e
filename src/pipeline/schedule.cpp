// Comes in: a ScheduleSpec. Goes out: the action list of one stage, in two steps: the order of its passes, then memory
// and transfers around them.
// Next: pipeline/slots.cpp places it, pipeline/check.cpp proves it, pipeline/execute.cpp runs it.
#include "src/pipeline/schedule.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

#include "src/pipeline/slots.h"

namespace ogrom {
namespace {

using Kind = ActionKind;

using Order = std::vector<SchedulePass>;

// Of one stage, at most: a pass each way (backward in two halves where it is split), with a receive and a send.
i64 actions_per_micro_batch(const ScheduleSpec& spec) {
    const i64 passes = spec.kind == PipelineSchedule::zero_bubble && spec.stages > 1 ? 3 : 2;
    return std::min(spec.virtual_stages, most_actions) * (passes + (spec.stages > 1 ? 4 : 0));
}

void check_spec(const ScheduleSpec& spec, i64 stage) {
    const auto at_least_one = [](i64 value, const char* what) {
        if (value < 1) {
            fail(ExitCode::usage, fmt::format("a pipeline schedule needs at least 1 {}, not {}", what, value));
        }
    };
    at_least_one(spec.stages, "stage");
    at_least_one(spec.virtual_stages, "virtual stage");
    at_least_one(spec.micro_batches, "micro-batch");
    if (spec.virtual_stages > 1 && spec.kind != PipelineSchedule::interleaved) {
        fail(ExitCode::usage, fmt::format("{} virtual stages per stage need the interleaved schedule; {} has 1",
                                          spec.virtual_stages, name_of(spec.kind)));
    }
    OGROM_ASSERT(stage >= 0 && stage < spec.stages);
    const i64 each = actions_per_micro_batch(spec);
    if (spec.virtual_stages > most_actions || spec.micro_batches > most_actions / each) {
        fail(
            ExitCode::usage,
            fmt::format("train.accumulation {}: the schedule of a step would have {} actions for each micro-batch on a "
                        "stage, at most {} in all; would be right: an accumulation of at most {}, with a larger "
                        "train.micro_batch or a smaller train.global_batch",
                        spec.micro_batches, each, most_actions, most_actions / each));
    }
}

Order one_stage_order(const ScheduleSpec& spec) {
    Order order;
    for (i64 m = 0; m < spec.micro_batches; ++m) {
        for (i64 c = 0; c < spec.virtual_stages; ++c) {
            order.push_back({Kind::forward, m, c});
        }
        for (i64 c = spec.virtual_stages - 1; c >= 0; --c) {
            order.push_back({Kind::backward, m, c});
        }
    }
    return order;
}

Order gpipe_order(const ScheduleSpec& spec) {
    Order order;
    for (const Kind kind : {Kind::forward, Kind::backward}) {
        for (i64 m = 0; m < spec.micro_batches; ++m) {
            order.push_back({kind, m, 0});
        }
    }
    return order;
}

// Warm-up: a forward pass for every stage behind this one; then forward and backward in turn. With a delay (ZB-H1) the
// weight half of micro-batch j follows backward_input of j + delay.
Order depth_first_order(const ScheduleSpec& spec, i64 stage, std::optional<i64> weight_delay) {
    const i64 count = spec.micro_batches;
    Order order;
    i64 next = 0;
    for (; next < std::min(count, spec.stages - stage - 1); ++next) {
        order.push_back({Kind::forward, next, 0});
    }
    i64 weights = 0;
    for (i64 m = 0; m < count; ++m) {
        if (next < count) {
            order.push_back({Kind::forward, next++, 0});
        }
        order.push_back({weight_delay ? Kind::backward_input : Kind::backward, m, 0});
        if (weight_delay && m >= *weight_delay) {
            order.push_back({Kind::backward_weight, weights++, 0});
        }
    }
    for (; weight_delay && weights < count; ++weights) {
        order.push_back({Kind::backward_weight, weights, 0});
    }
    return order;
}

// Passes of one direction: groups of `stages` micro-batches go through the chunks together.
Order grouped_order(const ScheduleSpec& spec, i64 padded, Kind kind) {
    Order order;
    for (i64 first = 0; first < padded; first += spec.stages) {
        for (i64 i = 0; i < spec.virtual_stages; ++i) {
            for (i64 m = first; m < first + spec.stages; ++m) {
                order.push_back({kind, m, kind == Kind::forward ? i : spec.virtual_stages - 1 - i});
            }
        }
    }
    return order;
}

// Narayanan et al. 2021, section 2.2. A last group that is not full is scheduled as if it were, and the passes of
// micro-batches that do not exist are left out: no other pass depends on those, so the rest stays free of deadlock,
// which a list made for the short group is not (4 stages, 3 chunks, 5 micro-batches).
Order interleaved_order(const ScheduleSpec& spec, i64 stage) {
    const i64 padded = ceil_div(spec.micro_batches, spec.stages) * spec.stages;
    const Order forward = grouped_order(spec, padded, Kind::forward);
    const Order backward = grouped_order(spec, padded, Kind::backward);
    const i64 passes = padded * spec.virtual_stages;
    const i64 warm_up = std::min(passes, 2 * (spec.stages - stage - 1) + (spec.virtual_stages - 1) * spec.stages);
    Order all(forward.begin(), forward.begin() + warm_up);
    for (i64 i = 0; i < passes; ++i) {
        if (warm_up + i < passes) {
            all.push_back(forward[static_cast<std::size_t>(warm_up + i)]);
        }
        all.push_back(backward[static_cast<std::size_t>(i)]);
    }
    std::erase_if(all, [&](const SchedulePass& pass) { return pass.micro_batch >= spec.micro_batches; });
    return all;
}

Order training_order(const ScheduleSpec& spec, i64 stage) {
    if (spec.stages == 1) {
        return one_stage_order(spec);
    }
    Order order;
    switch (spec.kind) {
        case PipelineSchedule::gpipe:
            order = gpipe_order(spec);
            break;
        case PipelineSchedule::one_f_one_b:
            order = depth_first_order(spec, stage, std::nullopt);
            break;
        case PipelineSchedule::interleaved:
            order = spec.virtual_stages == 1 ? depth_first_order(spec, stage, std::nullopt)
                                             : interleaved_order(spec, stage);
            break;
        case PipelineSchedule::zero_bubble:
            order = depth_first_order(spec, stage, stage);
            break;
    }
    if (fault_active("schedule_backward_swapped")) {
        const auto is_backward = [](const SchedulePass& pass) {
            return pass.kind == Kind::backward || pass.kind == Kind::backward_input;
        };
        const auto first = std::find_if(order.begin(), order.end(), is_backward);
        const auto second = first == order.end() ? first : std::find_if(first + 1, order.end(), is_backward);
        if (second != order.end()) {
            std::swap(first->micro_batch, second->micro_batch);
        }
    }
    return order;
}

Order evaluation_order(const ScheduleSpec& spec) {
    Order order;
    for (i64 first = 0; first < spec.micro_batches; first += spec.stages) {
        for (i64 c = 0; c < spec.virtual_stages; ++c) {
            for (i64 m = first; m < std::min(spec.micro_batches, first + spec.stages); ++m) {
                order.push_back({Kind::forward, m, c});
            }
        }
    }
    return order;
}

}  // namespace

StageSchedule make_stage_schedule(const ScheduleSpec& spec, i64 stage) {
    check_spec(spec, stage);
    const Order order = training_order(spec, stage);
    std::vector<i64> limits = slots_needed(spec, order);
    std::vector<i64> fullest = limits;
    for (i64 s = 0; s < spec.stages; ++s) {
        const std::vector<i64> needed = slots_needed(spec, training_order(spec, s));
        std::transform(fullest.begin(), fullest.end(), needed.begin(), fullest.begin(),
                       [](i64 a, i64 b) { return std::max(a, b); });
    }
    for (std::size_t c = 0; c < limits.size(); ++c) {
        limits[c] = std::min(limits[c] + 1, fullest[c]);  // the receive ahead costs no stage more than the fullest has
    }
    return place_passes(spec, stage, order, limits, SchedulePurpose::training);
}

StageSchedule make_evaluation_stage_schedule(const ScheduleSpec& spec, i64 stage, i64 slots) {
    check_spec(spec, stage);
    OGROM_ASSERT(slots >= 1);
    const Order order = evaluation_order(spec);
    const std::vector<i64> limits(static_cast<std::size_t>(spec.virtual_stages), slots);
    return place_passes(spec, stage, order, limits, SchedulePurpose::evaluation);
}

std::vector<StageSchedule> make_stage_schedules(const ScheduleSpec& spec) {
    std::vector<StageSchedule> stages;
    for (i64 s = 0; s < std::max<i64>(spec.stages, 1); ++s) {
        stages.push_back(make_stage_schedule(spec, s));
    }
    return stages;
}

std::vector<StageSchedule> make_evaluation_stage_schedules(const ScheduleSpec& spec, i64 slots) {
    std::vector<StageSchedule> stages;
    for (i64 s = 0; s < std::max<i64>(spec.stages, 1); ++s) {
        stages.push_back(make_evaluation_stage_schedule(spec, s, slots));
    }
    return stages;
}

}  // namespace ogrom
