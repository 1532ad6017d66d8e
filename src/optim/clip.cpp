// Comes in: gradients[size] (flat, arena), summed over dp and equal on all ranks.
// Goes out: the global norm and the clip factor; the update applies the factor as it reads the gradient.
// Next: optim/adamw.cpp.
#include "src/optim/clip.h"

#include <cmath>

#include "kernels/common/fault.h"
#include "kernels/ops/norm.h"

namespace ogrom {

template <class T>
double global_norm(Stream stream, std::span<const T> gradients, const ParameterLayout& layout) {
    double sum = 0;
    for (const LocalTensor& tensor : layout.tensors()) {
        const Parameter& parameter = *tensor.parameter;
        if (parameter.kind != ParameterKind::weight || parameter.frozen || !parameter.tie.empty()) {
            continue;
        }
        // Padded rows stand at the end of a tensor: its first count() elements are the logical ones.
        const double part = ops::sum_of_squares<T>(stream, gradients.data() + tensor.offset, parameter.count());
        const bool twice = fault_active("norm_counted_twice") && parameter.group == ParameterGroup::norm;
        sum += twice ? 2 * part : part;
    }
    return std::sqrt(sum);
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

template double global_norm<float>(Stream, std::span<const float>, const ParameterLayout&);
template double global_norm<double>(Stream, std::span<const double>, const ParameterLayout&);

}  // namespace ogrom
