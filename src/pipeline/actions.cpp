#include "src/pipeline/actions.h"

#include <fmt/format.h>

namespace ogrom {

std::string_view name_of(ActionKind kind) {
    switch (kind) {
        case ActionKind::receive_forward:
            return "receive_forward";
        case ActionKind::forward:
            return "forward";
        case ActionKind::send_forward:
            return "send_forward";
        case ActionKind::receive_backward:
            return "receive_backward";
        case ActionKind::backward:
            return "backward";
        case ActionKind::backward_input:
            return "backward_input";
        case ActionKind::backward_weight:
            return "backward_weight";
        case ActionKind::send_backward:
            return "send_backward";
    }
    return "?";
}

std::string_view name_of(PipelineSchedule kind) {
    switch (kind) {
        case PipelineSchedule::gpipe:
            return "gpipe";
        case PipelineSchedule::one_f_one_b:
            return "1f1b";
        case PipelineSchedule::interleaved:
            return "interleaved";
        case PipelineSchedule::zero_bubble:
            return "zb-h1";
    }
    return "?";
}

std::string describe(const Action& action) {
    std::string text =
        fmt::format("{} of micro-batch {}, chunk {}", name_of(action.kind), action.micro_batch, action.chunk);
    if (action.kind != ActionKind::receive_backward && action.kind != ActionKind::send_backward) {
        text += fmt::format(", slot {}", action.slot);
    }
    if (uses_buffer(action.kind)) {
        text += fmt::format(", buffer {}", action.buffer);
    }
    if (uses_weight_slot(action.kind)) {
        text += fmt::format(", weight slot {}", action.weight_slot);
    }
    return text;
}

}  // namespace ogrom
