// Runs an action list on a stage: the micro-batches of one optimizer step, in the order the schedule says.
#pragma once
#include <functional>
#include <span>

#include "src/model/stage.h"
#include "src/pipeline/schedule.h"

namespace ogrom {

// Called before the backward pass of a micro-batch; `last`: no further backward pass follows in this step, so that what
// gradient_ready reports is final for the step.
using BeforeBackward = std::function<void(i64 micro_batch, bool last)>;

// Returns the sum of the unmasked losses of all micro-batches (not scaled); gradients are added to the stage's flat
// gradient buffer. `batches[m]` is micro-batch m; `before_backward` may be empty. Throws Error(peer) when the list
// names a micro-batch that is not there.
template <class T>
double execute(Stream stream, Stage<T>& stage, const ActionList& actions, std::span<const Batch> batches,
               const typename Stage<T>::StepInfo& info, const BeforeBackward& before_backward);

}  // namespace ogrom
