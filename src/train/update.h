// The update of the run's optimizer, and the step its schedule stands at.
#pragma once
#include "src/optim/adamw.h"
#include "src/train/engine.h"

namespace ogrom {

// Weights and moments of one more update, from gradients summed over dp.
template <class T>
void update(Engine<T>& engine, const ops::StepScalars& scalars);

// The step that the learning rate is taken at: steps done, whether this process did them or one before it.
template <class T>
i64 schedule_step(const Engine<T>& engine);

}  // namespace ogrom
