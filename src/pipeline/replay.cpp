#include "src/pipeline/replay.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/common/error.h"

namespace ogrom {
namespace {

using Kind = ActionKind;

std::size_t index(i64 value) {
    return static_cast<std::size_t>(value);
}

}  // namespace

ScheduleReplay::ScheduleReplay(const ScheduleSpec& spec, std::span<const StageSchedule> stages,
                               const ScheduleCosts& costs, SchedulePurpose purpose)
    : spec_(spec), lists_(stages), costs_(costs), purpose_(purpose), spans_(stages.size()) {
    OGROM_ASSERT(static_cast<i64>(stages.size()) == spec.stages && costs.passes.size() == stages.size());
    channels_.fill(std::vector<Channel>(stages.size()));
    for (const StageSchedule& list : stages) {
        StageState& state = states_.emplace_back();
        for (const i64 count : list.slots) {
            state.slots.emplace_back(index(count));
        }
        state.buffers.resize(index(list.buffers));
        state.weight_slots.resize(index(list.weight_slots));
        state.next_backward.assign(index(spec.virtual_stages), 0);
        state.next_weight.assign(index(spec.virtual_stages), 0);
        state.forward_done.assign(index(spec.virtual_stages), std::vector<char>(index(spec.micro_batches), 0));
    }
}

std::optional<std::string> ScheduleReplay::run() {
    i64 stage = 0;
    try {
        for (bool moved = true; moved;) {
            moved = false;
            for (stage = 0; stage < spec_.stages; ++stage) {
                StageState& state = states_[index(stage)];
                const auto& actions = lists_[index(stage)].actions;
                while (state.next < actions.size() && execute(stage, actions[state.next]) == Progress::done) {
                    ++state.next;
                    moved = true;
                }
            }
        }
        const bool ended = std::all_of(states_.begin(), states_.end(), [&](const StageState& state) {
            return state.next == lists_[index(&state - states_.data())].actions.size();
        });
        if (!ended) {
            return stuck();
        }
        check_end();
    } catch (const Violation& violation) {
        return violation.text;
    }
    return std::nullopt;
}

std::string ScheduleReplay::where(i64 stage, const Action& action) const {
    return fmt::format("stage {}, action {} ({})", stage, states_[index(stage)].next, describe(action));
}

std::string ScheduleReplay::stuck() const {
    std::string text = "deadlock under zero buffering:";
    for (i64 s = 0; s < spec_.stages; ++s) {
        const auto& actions = lists_[index(s)].actions;
        const std::size_t next = states_[index(s)].next;
        if (next < actions.size()) {
            text += fmt::format(" {} waits;", where(s, actions[next]));
        }
    }
    text.back() = '.';
    return text;
}

void ScheduleReplay::check_ranges(i64 stage, const Action& action) const {
    const StageSchedule& list = lists_[index(stage)];
    const auto inside = [&](i64 value, i64 count, const char* what) {
        if (value < 0 || value >= count) {
            violated(fmt::format("{}: {} {} is not below {}", where(stage, action), what, value, count));
        }
    };
    inside(action.micro_batch, spec_.micro_batches, "micro-batch");
    inside(action.chunk, spec_.virtual_stages, "chunk");
    if (action.kind != Kind::receive_backward && action.kind != Kind::send_backward) {
        inside(action.chunk, static_cast<i64>(list.slots.size()), "chunk with slots");
        inside(action.slot, list.slots[index(action.chunk)], "slot");
    }
    if (uses_buffer(action.kind)) {
        inside(action.buffer, list.buffers, "buffer");
    }
    if (uses_weight_slot(action.kind)) {
        inside(action.weight_slot, list.weight_slots, "weight slot");
    }
    const bool goes_forward =
        action.kind == Kind::receive_forward || action.kind == Kind::forward || action.kind == Kind::send_forward;
    if (purpose_ == SchedulePurpose::evaluation && !goes_forward) {
        violated(fmt::format("{}: evaluation has no backward pass", where(stage, action)));
    }
}

ScheduleReplay::Progress ScheduleReplay::execute(i64 stage, const Action& action) {
    check_ranges(stage, action);
    switch (action.kind) {
        case Kind::receive_forward:
            return receive_forward(stage, action);
        case Kind::forward:
            return forward(stage, action);
        case Kind::send_forward:
            return send_forward(stage, action);
        case Kind::receive_backward:
            return receive_backward(stage, action);
        case Kind::backward:
        case Kind::backward_input:
            return backward(stage, action);
        case Kind::backward_weight:
            return backward_weight(stage, action);
        case Kind::send_backward:
            return send_backward(stage, action);
    }
    return Progress::blocked;
}

ScheduleReplay::Channel& ScheduleReplay::channel(PipelineChannel direction, i64 from) {
    return channels_[static_cast<std::size_t>(direction)][index(from)];
}

ScheduleReplay::Message& ScheduleReplay::message(Channel& channel, std::size_t number) {
    while (channel.messages.size() <= number) {
        channel.messages.emplace_back();
    }
    return channel.messages[number];
}

// Both ends of message `number` are there: it moves behind the one before it.
void ScheduleReplay::settle(Channel& channel, std::size_t number) const {
    Message& moving = channel.messages[number];
    if (!moving.sent || !moving.posted) {
        return;
    }
    OGROM_ASSERT(number == 0 || channel.messages[number - 1].arrived);
    channel.free_at = std::max({*moving.sent, *moving.posted, channel.free_at}) + costs_.transfer;
    moving.arrived = channel.free_at;
}

void ScheduleReplay::post(Cell& cell, PipelineChannel direction, i64 from, const Action& action, i64 part, double now) {
    Channel& line = channel(direction, from);
    const std::size_t number = line.receives++;
    Message& expected = message(line, number);
    if (expected.sent && (expected.micro_batch != action.micro_batch || expected.part != part)) {
        violated(
            fmt::format("message {} from stage {} carries micro-batch {} of part {}, its receive ({}) expects part {}",
                        number, from, expected.micro_batch, expected.part, describe(action), part));
    }
    expected.micro_batch = action.micro_batch;
    expected.part = part;
    expected.posted = now;
    cell.hold(Content::receiving, action);
    cell.incoming = &expected;
    settle(line, number);
}

void ScheduleReplay::send(Cell& cell, PipelineChannel direction, i64 from, const Action& action, double now) {
    Channel& line = channel(direction, from);
    const std::size_t number = line.sends++;
    Message& leaving = message(line, number);
    const i64 part = part_of(from, action.chunk);
    if (leaving.posted && (leaving.micro_batch != action.micro_batch || leaving.part != part)) {
        violated(
            fmt::format("message {} from stage {} carries micro-batch {} of part {} ({}), its receive expects "
                        "micro-batch {} of part {}",
                        number, from, action.micro_batch, part, describe(action), leaving.micro_batch, leaving.part));
    }
    leaving.micro_batch = action.micro_batch;
    leaving.part = part;
    leaving.sent = now;
    cell.outgoing = &leaving;
    settle(line, number);
}

bool ScheduleReplay::may_write(const Cell& cell, double& clock) {
    if (cell.outgoing != nullptr) {
        if (!cell.outgoing->arrived) {
            return false;
        }
        clock = std::max(clock, *cell.outgoing->arrived);
    }
    return true;
}

bool ScheduleReplay::has_arrived(const Cell& cell, double& clock) {
    if (!cell.incoming->arrived) {
        return false;
    }
    clock = std::max(clock, *cell.incoming->arrived);
    return true;
}

void ScheduleReplay::check_end() const {
    const i64 passes = spec_.micro_batches * spec_.virtual_stages;
    const i64 backward_passes = purpose_ == SchedulePurpose::training ? passes : 0;
    const auto all = [](i64 stage, i64 done, i64 due, const char* what) {
        if (done != due) {
            violated(fmt::format("stage {}: {} of {} {} passes are in the list", stage, done, due, what));
        }
    };
    const auto empty = [](i64 stage, const std::vector<Cell>& cells, const char* what) {
        for (std::size_t i = 0; i < cells.size(); ++i) {
            if (cells[i].content != Content::free) {
                violated(fmt::format("stage {}: {} {} still holds micro-batch {} at the end", stage, what, i,
                                     cells[i].micro_batch));
            }
        }
    };
    for (i64 s = 0; s < spec_.stages; ++s) {
        const StageState& state = states_[index(s)];
        all(s, state.forwards, passes, "forward");
        all(s, state.inputs, backward_passes, "backward");
        all(s, state.weights, backward_passes, "backward_weight");
        for (const auto& slots : state.slots) {
            empty(s, slots, "slot");
        }
        empty(s, state.buffers, "buffer");
        empty(s, state.weight_slots, "weight slot");
        for (const auto& direction : channels_) {
            const Channel& line = direction[index(s)];
            if (line.sends != line.receives) {
                violated(fmt::format("stage {} sends {} messages, {} are received", s, line.sends, line.receives));
            }
        }
    }
}

}  // namespace ogrom
