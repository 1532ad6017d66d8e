// What each action of a replay needs and leaves behind.
#include <algorithm>
#include <fmt/format.h>

#include "src/pipeline/replay.h"

namespace ogrom {
namespace {

using Kind = ActionKind;

std::size_t index(i64 value) {
    return static_cast<std::size_t>(value);
}

}  // namespace

const PassCosts& ScheduleReplay::cost(i64 stage, const Action& action) const {
    return costs_.passes[index(stage)].at(index(action.chunk));
}

void ScheduleReplay::compute(i64 stage, const Action& action, double seconds) {
    double& clock = states_[index(stage)].clock;
    if (!costs_.own.empty()) {
        seconds = costs_.own[index(stage)].at(spans_[index(stage)].size());
    }
    spans_[index(stage)].push_back({action.kind, action.micro_batch, action.chunk, clock, clock + seconds});
    clock += seconds;
}

ScheduleReplay::Progress ScheduleReplay::receive_forward(i64 stage, const Action& action) {
    StageState& state = states_[index(stage)];
    Cell& slot = state.slots[index(action.chunk)][index(action.slot)];
    if (!input_is_received(spec_, stage, action.chunk)) {
        violated(where(stage, action) + ": nothing is sent to this part");
    }
    if (slot.content != Content::free) {
        violated(fmt::format("{}: the slot still holds micro-batch {}", where(stage, action), slot.micro_batch));
    }
    if (!may_write(slot, state.clock)) {
        return Progress::blocked;
    }
    const i64 part = part_of(stage, action.chunk) - 1;
    post(slot, PipelineChannel::forward, previous_stage(spec_, stage), action, part, state.clock);
    return Progress::done;
}

ScheduleReplay::Progress ScheduleReplay::forward(i64 stage, const Action& action) {
    StageState& state = states_[index(stage)];
    Cell& slot = state.slots[index(action.chunk)][index(action.slot)];
    char& done = state.forward_done[index(action.chunk)][index(action.micro_batch)];
    if (done != 0) {
        violated(where(stage, action) + ": done before");
    }
    if (input_is_received(spec_, stage, action.chunk)) {
        if (!slot.holds(Content::receiving, action)) {
            violated(where(stage, action) + ": its input was not received into this slot");
        }
        if (!has_arrived(slot, state.clock)) {
            return Progress::blocked;
        }
    } else {
        if (slot.content != Content::free) {
            violated(fmt::format("{}: the slot still holds micro-batch {}", where(stage, action), slot.micro_batch));
        }
        if (action.chunk > 0 && state.forward_done[index(action.chunk - 1)][index(action.micro_batch)] == 0) {
            violated(where(stage, action) + ": the chunk before it has not run");
        }
        if (!may_write(slot, state.clock)) {
            return Progress::blocked;
        }
    }
    done = 1;
    ++state.forwards;
    compute(stage, action, cost(stage, action).forward);
    slot.hold(Content::forwarded, action);
    if (purpose_ == SchedulePurpose::evaluation && !output_is_sent(spec_, stage, action.chunk)) {
        slot.content = Content::free;
    }
    return Progress::done;
}

ScheduleReplay::Progress ScheduleReplay::send_forward(i64 stage, const Action& action) {
    StageState& state = states_[index(stage)];
    Cell& slot = state.slots[index(action.chunk)][index(action.slot)];
    if (!output_is_sent(spec_, stage, action.chunk)) {
        violated(where(stage, action) + ": nothing comes behind this part");
    }
    if (!slot.holds(Content::forwarded, action)) {
        violated(where(stage, action) + ": the slot does not hold this output, or it was sent before");
    }
    send(slot, PipelineChannel::forward, stage, action, state.clock);
    slot.content = purpose_ == SchedulePurpose::evaluation ? Content::free : Content::sent;
    return Progress::done;
}

ScheduleReplay::Progress ScheduleReplay::receive_backward(i64 stage, const Action& action) {
    StageState& state = states_[index(stage)];
    Cell& buffer = state.buffers[index(action.buffer)];
    if (!output_is_sent(spec_, stage, action.chunk)) {
        violated(where(stage, action) + ": no gradient is sent to this part");
    }
    if (buffer.content != Content::free) {
        violated(fmt::format("{}: the buffer still holds micro-batch {}", where(stage, action), buffer.micro_batch));
    }
    if (!may_write(buffer, state.clock)) {
        return Progress::blocked;
    }
    const i64 part = part_of(stage, action.chunk) + 1;
    post(buffer, PipelineChannel::backward, next_stage(spec_, stage), action, part, state.clock);
    return Progress::done;
}

// The gradient of the part's output: received, left in place by the next chunk of the same stage, or the loss's own.
ScheduleReplay::Progress ScheduleReplay::take_gradient(i64 stage, const Action& action) {
    StageState& state = states_[index(stage)];
    Cell& buffer = state.buffers[index(action.buffer)];
    if (output_is_sent(spec_, stage, action.chunk)) {
        if (!buffer.holds(Content::receiving, action)) {
            violated(where(stage, action) + ": its gradient was not received into this buffer");
        }
        return has_arrived(buffer, state.clock) ? Progress::done : Progress::blocked;
    }
    if (!is_last_part(spec_, stage, action.chunk)) {
        Action behind = action;
        behind.chunk = action.chunk + 1;
        if (!buffer.holds(Content::gradient, behind)) {
            violated(where(stage, action) + ": the chunk behind it has not left its gradient in this buffer");
        }
        return Progress::done;
    }
    if (buffer.content != Content::free) {
        violated(fmt::format("{}: the buffer still holds micro-batch {}", where(stage, action), buffer.micro_batch));
    }
    return may_write(buffer, state.clock) ? Progress::done : Progress::blocked;
}

void ScheduleReplay::check_ascending(std::vector<i64>& next, const Action& action, const char* what) const {
    i64& turn = next[index(action.chunk)];
    if (action.micro_batch != turn) {
        violated(fmt::format("{} of chunk {}: micro-batch {} comes where {} is due; sums need ascending order", what,
                             action.chunk, action.micro_batch, turn));
    }
    ++turn;
}

ScheduleReplay::Progress ScheduleReplay::backward(i64 stage, const Action& action) {
    StageState& state = states_[index(stage)];
    Cell& slot = state.slots[index(action.chunk)][index(action.slot)];
    Cell& buffer = state.buffers[index(action.buffer)];
    const Content ready = output_is_sent(spec_, stage, action.chunk) ? Content::sent : Content::forwarded;
    if (!slot.holds(ready, action)) {
        violated(where(stage, action) + ": the slot does not hold this forward pass with its output sent");
    }
    if (take_gradient(stage, action) == Progress::blocked) {
        return Progress::blocked;
    }
    check_ascending(state.next_backward, action, "backward");
    ++state.inputs;
    const PassCosts& seconds = cost(stage, action);
    if (action.kind == Kind::backward) {
        ++state.weights;
        ++state.next_weight[index(action.chunk)];
        compute(stage, action, seconds.backward_input + seconds.backward_weight);
        slot.content = Content::free;
    } else {
        Cell& weight_slot = state.weight_slots[index(action.weight_slot)];
        if (weight_slot.content != Content::free) {
            violated(fmt::format("{}: the weight slot still holds micro-batch {}", where(stage, action),
                                 weight_slot.micro_batch));
        }
        compute(stage, action, seconds.backward_input);
        slot.hold(Content::half_done, action);
        weight_slot.hold(Content::half_done, action);
    }
    if (is_first_part(spec_, stage, action.chunk)) {
        buffer.content = Content::free;
    } else {
        buffer.hold(Content::gradient, action);
    }
    return Progress::done;
}

ScheduleReplay::Progress ScheduleReplay::backward_weight(i64 stage, const Action& action) {
    StageState& state = states_[index(stage)];
    Cell& slot = state.slots[index(action.chunk)][index(action.slot)];
    Cell& weight_slot = state.weight_slots[index(action.weight_slot)];
    if (!slot.holds(Content::half_done, action) || !weight_slot.holds(Content::half_done, action)) {
        violated(where(stage, action) + ": slot and weight slot do not hold its backward_input");
    }
    check_ascending(state.next_weight, action, "backward_weight");
    ++state.weights;
    compute(stage, action, cost(stage, action).backward_weight);
    slot.content = Content::free;
    weight_slot.content = Content::free;
    return Progress::done;
}

ScheduleReplay::Progress ScheduleReplay::send_backward(i64 stage, const Action& action) {
    StageState& state = states_[index(stage)];
    Cell& buffer = state.buffers[index(action.buffer)];
    if (!input_is_received(spec_, stage, action.chunk)) {
        violated(where(stage, action) + ": nothing comes before this part");
    }
    if (!buffer.holds(Content::gradient, action)) {
        violated(where(stage, action) + ": the buffer does not hold this gradient, or it was sent before");
    }
    send(buffer, PipelineChannel::backward, stage, action, state.clock);
    buffer.content = Content::free;
    return Progress::done;
}

}  // namespace ogrom
