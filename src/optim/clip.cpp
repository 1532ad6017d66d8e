// Comes in: gradients in optim/state (arena): of the whole model's loss, each rank what it owns.
// Goes out: the global norm and the clip factor; the update applies the factor as it reads the gradient.
// Next: optim/update.cpp.
#include "src/optim/clip.h"

#include <cmath>

#include "kernels/common/fault.h"
#include "kernels/ops/norm.h"

namespace ogrom {

template <class T>
double global_norm(Stream stream, const StepState<T>& state, const ParameterLayout& layout, const Ownership& ownership,
                   const StepPlace& place, Communicator& world) {
    ExactSum sum;
    for (const LocalTensor& tensor : layout.tensors()) {
        const Parameter& parameter = *tensor.parameter;
        const bool counts = parameter.kind == ParameterKind::weight && !parameter.frozen && parameter.tie.empty();
        const bool copy = layout.replicated(tensor) && layout.part().rank != 0;
        if (!counts || place.replica != 0 || (copy && !fault_active("norm_counted_per_tensor_rank"))) {
            continue;
        }
        const bool twice = fault_active("norm_counted_twice") && parameter.group == ParameterGroup::norm;
        // Padding stands at the end of a tensor.
        const FlatRange logical{tensor.offset, tensor.offset + tensor.logical};
        for (const FlatRange& range : intersect(ownership.ranges(place.part), logical)) {
            for (int times = 0; times < (twice ? 2 : 1); ++times) {
                ops::block_squares<T>(stream, state.gradients.locate(range), range.count(), sum);
            }
        }
    }
    sum.normalise();
    world
        .all_reduce(sum.limb.data(), ExactSum::words, Dtype::i64, ReduceOp::sum, ReduceOrder::any, nullptr,
                    "gradient norm")
        .wait();
    return std::sqrt(sum.value());
}

double clip_factor(double norm, double clip_norm) {
    if (clip_norm <= 0 || norm <= clip_norm) {
        return 1;
    }
    if (fault_active("clip_ignored_scale")) {
        return clip_norm;
    }
    return clip_norm / norm;
}

template double global_norm<float>(Stream, const StepState<float>&, const ParameterLayout&, const Ownership&,
                                   const StepPlace&, Communicator&);
template double global_norm<double>(Stream, const StepState<double>&, const ParameterLayout&, const Ownership&,
                                    const StepPlace&, Communicator&);

}  // namespace ogrom
