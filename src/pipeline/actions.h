// What a pipeline rank does in one step, as data: a list of actions made by pure functions (pipeline/schedule), proven
// by pipeline/check, timed by pipeline/simulate and run by pipeline/execute.
//
// The model is cut into stages * virtual_stages parts. Part k lives on stage k mod stages as that stage's chunk
// k / stages: activations go from part k to k + 1, which is always the next stage of the ring (the last stage hands on
// to the first one, one chunk up), and gradients go back the same way.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/extents.h"

#include "src/config/run.h"

namespace ogrom {

// receive_* post a receive and go on; send_* start a send and go on. `backward` is both halves of a split backward:
// backward_input makes the gradient of the chunk's input (and keeps what the other half needs), backward_weight the
// gradients of the weights.
enum class ActionKind {
    receive_forward,
    forward,
    send_forward,
    receive_backward,
    backward,
    backward_input,
    backward_weight,
    send_backward
};

struct Action {
    ActionKind kind = ActionKind::forward;
    i64 micro_batch = 0;
    i64 chunk = 0;        // of this stage, 0 <= chunk < virtual_stages
    i64 slot = 0;         // activation slot of that chunk: the received input, what backward needs, the output to send
    i64 buffer = 0;       // backward passes and their transfers: holds d(output), then, in place, d(input)
    i64 weight_slot = 0;  // backward_input and backward_weight: what the weight half needs of the backward pass
    bool operator==(const Action&) const = default;
};

struct ScheduleSpec {
    PipelineSchedule kind = PipelineSchedule::one_f_one_b;
    i64 stages = 1;
    i64 virtual_stages = 1;  // chunks per stage; above 1 only with `interleaved`
    i64 micro_batches = 1;
};

// Of a stage and step: lists, their proof and their replay stay below 100 MB.
inline constexpr i64 most_actions = 1'000'000;

// One stage's list and the memory it asks for.
struct StageSchedule {
    std::vector<Action> actions;
    std::vector<i64> slots;  // [virtual_stages] activation slots of each chunk
    i64 buffers = 0;         // gradient boundary buffers; 0 in evaluation
    i64 weight_slots = 0;    // 0 where no backward pass is split
};

enum class PipelineChannel { forward, backward };  // activations | gradients
enum class SchedulePurpose { training, evaluation };

constexpr i64 next_stage(const ScheduleSpec& spec, i64 stage) {
    return (stage + 1) % spec.stages;
}
constexpr i64 previous_stage(const ScheduleSpec& spec, i64 stage) {
    return (stage + spec.stages - 1) % spec.stages;
}
constexpr bool is_first_part(const ScheduleSpec&, i64 stage, i64 chunk) {
    return stage == 0 && chunk == 0;
}
constexpr bool is_last_part(const ScheduleSpec& spec, i64 stage, i64 chunk) {
    return stage == spec.stages - 1 && chunk == spec.virtual_stages - 1;
}
// Whether the part's input (d(output) in backward) comes from another rank; with one stage nothing does.
constexpr bool input_is_received(const ScheduleSpec& spec, i64 stage, i64 chunk) {
    return spec.stages > 1 && !is_first_part(spec, stage, chunk);
}
constexpr bool output_is_sent(const ScheduleSpec& spec, i64 stage, i64 chunk) {
    return spec.stages > 1 && !is_last_part(spec, stage, chunk);
}

constexpr bool is_compute(ActionKind kind) {
    return kind == ActionKind::forward || kind == ActionKind::backward || kind == ActionKind::backward_input ||
           kind == ActionKind::backward_weight;
}
// Works with a gradient boundary buffer.
constexpr bool uses_buffer(ActionKind kind) {
    return kind == ActionKind::receive_backward || kind == ActionKind::backward || kind == ActionKind::backward_input ||
           kind == ActionKind::send_backward;
}
constexpr bool uses_weight_slot(ActionKind kind) {
    return kind == ActionKind::backward_input || kind == ActionKind::backward_weight;
}

std::string_view name_of(ActionKind kind);        // "receive_forward", ...
std::string_view name_of(PipelineSchedule kind);  // as the run file has it: "gpipe", "1f1b", "interleaved", "zb-h1"
std::string describe(const Action& action);       // "forward of micro-batch 3, chunk 0 (slot 1)"

}  // namespace ogrom
