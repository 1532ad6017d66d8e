// The micro-batches of a step, one backward pass after the other.
#pragma once
#include <span>

#include "src/data/batch.h"
#include "src/train/engine.h"
#include "src/train/stop_vote.h"

namespace ogrom {

enum class PassesEnd { complete, left };

// Losses of this rank are under way to engine.sums when it returns; left: the ranks agreed to stop between two of its
// passes. `vote` may be null.
template <class T>
PassesEnd run_passes(Engine<T>& engine, std::span<const Batch> batches, const typename Stage<T>::StepInfo& info,
                     StopVote* vote);

}  // namespace ogrom
