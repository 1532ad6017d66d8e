// The second half of making a schedule: slots, buffers and transfers around a given order of passes.
#pragma once
#include <span>
#include <vector>

#include "src/pipeline/actions.h"

namespace ogrom {

// A compute action without its memory.
struct SchedulePass {
    ActionKind kind = ActionKind::forward;
    i64 micro_batch = 0, chunk = 0;
};

// Micro-batches in flight at most, per chunk: between the forward pass and the pass that frees the slot.
std::vector<i64> slots_needed(const ScheduleSpec& spec, std::span<const SchedulePass> order);

// Activation slots are allocated as registers are, the smallest free number first, and free again behind the backward
// pass (its weight half where it is split; in evaluation, the send). Gradient buffers and evaluation slots are given
// out in turn: the one given back last may still be read by a send. Sends stand behind the pass that made the data;
// receives before the pass ahead of the one that needs them where a slot or buffer is free, else right before it.
// `slot_limits` per chunk, at least slots_needed in training and 1 in evaluation.
StageSchedule place_passes(const ScheduleSpec& spec, i64 stage, std::span<const SchedulePass> order,
                           std::span<const i64> slot_limits, SchedulePurpose purpose);

}  // namespace ogrom
