// The order of forward and backward passes of a stage, as data: made by pure functions, run by pipeline/execute,
// simulated by the planner.
#pragma once
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

enum class ActionKind { forward, backward };
struct Action {
    ActionKind kind = ActionKind::forward;
    i64 micro_batch = 0;
    i64 chunk = 0;
    i64 slot = 0;  // activation slot
};
using ActionList = std::vector<Action>;

// One stage: forward and backward of each micro-batch in turn, one activation slot.
ActionList make_schedule(i64 stages, i64 stage, i64 micro_batches);

}  // namespace ogrom
