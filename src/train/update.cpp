#include "src/train/update.h"

#include "kernels/common/fault.h"

#include "src/optim/sgd.h"

namespace ogrom {

template <class T>
void update(Engine<T>& engine, const ops::StepScalars& scalars) {
    if (engine.run.optimizer.kind == OptimizerKind::adamw) {
        adamw_update<T>(engine.stream, engine.ranges, engine.weights, engine.moment1, engine.moment2, engine.gradients,
                        scalars);
    } else {
        sgd_update<T>(engine.stream, engine.ranges, engine.weights, engine.moment1, engine.gradients, scalars);
    }
}

template <class T>
i64 schedule_step(const Engine<T>& engine) {
    return fault_active("lr_advanced_twice") ? engine.step + engine.resumed_at : engine.step;
}

template void update<float>(Engine<float>&, const ops::StepScalars&);
template void update<double>(Engine<double>&, const ops::StepScalars&);
template i64 schedule_step<float>(const Engine<float>&);
template i64 schedule_step<double>(const Engine<double>&);

}  // namespace ogrom
