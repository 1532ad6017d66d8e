// The micro-batches of a step, one backward pass after the other.
#pragma once
#include <optional>
#include <span>

#include "src/data/batch.h"
#include "src/train/engine.h"
#include "src/train/stop_vote.h"

namespace ogrom {

// The sum of losses of this rank; none when the ranks agreed to stop between
// two of its passes. `vote` may be null.
template <class T>
std::optional<double> run_passes(Engine<T>& engine, std::span<const Batch> batches,
                                 const typename Stage<T>::StepInfo& info, StopVote* vote);

}  // namespace ogrom
