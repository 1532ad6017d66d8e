#include "src/optim/sgd.h"

namespace ogrom {

template <class T>
void sgd_update(Stream stream, std::span<const UpdateRange> ranges, std::span<T> weights, std::span<T> moment,
                std::span<const T> gradients, const ops::StepScalars& scalars) {
    for (const UpdateRange& range : ranges) {
        ops::Sgd<T> op;
        op.weight = weights.data() + range.first;
        op.m = moment.empty() ? nullptr : moment.data() + range.first;
        op.gradient = gradients.data() + range.first;
        op.n = range.last - range.first;
        op.scalars = scalars;
        op.lr_factor = range.lr_factor;
        op.decay = range.decay;
        ops::sgd(stream, op);
    }
}

template void sgd_update<float>(Stream, std::span<const UpdateRange>, std::span<float>, std::span<float>,
                                std::span<const float>, const ops::StepScalars&);
template void sgd_update<double>(Stream, std::span<const UpdateRange>, std::span<double>, std::span<double>,
                                 std::span<const double>, const ops::StepScalars&);

}  // namespace ogrom
