// Comes in: gradients[size] (summed over dp), weights, moment1, moment2 [size] in the arena; clip factor and rate.
// Goes out: weights and moments of this update.
// Next: io/metrics.cpp.
#include "src/optim/adamw.h"

#include <cmath>

namespace ogrom {

ops::StepScalars make_scalars(const OptimizerConfig& optimizer, double lr, double clip, i64 updates_done) {
    ops::StepScalars scalars;
    scalars.lr = lr;
    scalars.clip = clip;
    scalars.beta1 = optimizer.beta1;
    scalars.beta2 = optimizer.beta2;
    // c = 1 - b^t: the moments start at 0 and are that much too small after t updates.
    const double t = static_cast<double>(updates_done + 1);
    scalars.correction1 = 1 - std::pow(optimizer.beta1, t);
    scalars.correction2 = 1 - std::pow(optimizer.beta2, t);
    scalars.epsilon = optimizer.epsilon;
    scalars.momentum = optimizer.momentum;
    return scalars;
}

template <class T>
void adamw_update(Stream stream, std::span<const UpdateRange> ranges, std::span<T> weights, std::span<T> moment1,
                  std::span<T> moment2, std::span<const T> gradients, const ops::StepScalars& scalars) {
    for (const UpdateRange& range : ranges) {
        ops::AdamW<T> op;
        op.weight = weights.data() + range.first;
        op.m = moment1.data() + range.first;
        op.v = moment2.data() + range.first;
        op.gradient = gradients.data() + range.first;
        op.n = range.last - range.first;
        op.scalars = scalars;
        op.lr_factor = range.lr_factor;
        op.decay = range.decay;
        ops::adamw(stream, op);
    }
}

template void adamw_update<float>(Stream, std::span<const UpdateRange>, std::span<float>, std::span<float>,
                                  std::span<float>, std::span<const float>, const ops::StepScalars&);
template void adamw_update<double>(Stream, std::span<const UpdateRange>, std::span<double>, std::span<double>,
                                   std::span<double>, std::span<const double>, const ops::StepScalars&);

}  // namespace ogrom
