// Pipeline schedules as pure functions of (kind, stages, virtual stages, micro-batches).
//
// gpipe        all forward passes, then all backward passes (Huang et al. 2019)
// one_f_one_b  as many forward passes as the pipeline is deep from here, then one backward for each forward
//              (PipeDream-Flush, Narayanan et al. 2021)
// interleaved  the same over several chunks per stage, in groups of `stages` micro-batches (Narayanan et al. 2021);
//              where the micro-batches do not fill the last group, its empty places are left out of the list
// zero_bubble  ZB-H1 (Qi et al. 2023): backward split, stage s puts its weight halves s micro-batches off, so that
//              every stage keeps at most `stages` micro-batches and the weight halves fill the waits
//
// In every schedule each chunk's backward passes (and weight halves) take the micro-batches in ascending order: sums of
// gradients have the same order under all of them.
//
// Memory: no stage keeps more activations than the pipeline's fullest stage needs (one_f_one_b, zero_bubble:
// min(stages, micro_batches); gpipe: micro_batches). Within that a receive is posted one micro-batch before the compute
// that needs it. Three gradient buffers let one be received and one be sent while one is computed in.
#pragma once
#include <vector>

#include "src/pipeline/actions.h"

namespace ogrom {

// What one optimizer step does on `stage`. One stage: forward and backward of each micro-batch in turn, one slot,
// whatever the kind; several chunks on one stage: forward through the chunks, then backward, with nothing sent.
// Throws Error(usage) where the spec has no meaning (counts below 1, chunks without `interleaved`), and, before any
// list is made, where it would have more than most_actions actions.
StageSchedule make_stage_schedule(const ScheduleSpec& spec, i64 stage);

// Forward passes only, in at most `slots` slots per chunk (2: one is received while one is computed in; 1: the least
// memory). A slot is free again when its output has been sent.
StageSchedule make_evaluation_stage_schedule(const ScheduleSpec& spec, i64 stage, i64 slots = 2);

// The lists of all stages, in order.
std::vector<StageSchedule> make_stage_schedules(const ScheduleSpec& spec);
std::vector<StageSchedule> make_evaluation_stage_schedules(const ScheduleSpec& spec, i64 slots = 2);

}  // namespace ogrom
