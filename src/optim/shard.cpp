#include "src/optim/shard.h"

#include "kernels/common/fault.h"

namespace ogrom {

std::vector<UpdateRange> make_update_ranges(const ParameterLayout& layout, double weight_decay) {
    std::vector<UpdateRange> ranges;
    for (const LocalTensor& tensor : layout.tensors()) {
        const Parameter& parameter = *tensor.parameter;
        if (parameter.frozen || parameter.kind != ParameterKind::weight) {
            continue;
        }
        const double factor = fault_active("decay_on_bias") ? 1 : parameter.decay_factor;
        const UpdateRange range{tensor.offset, tensor.offset + tensor.count, parameter.lr_factor,
                                weight_decay * factor};
        const bool joins = !ranges.empty() && ranges.back().last == range.first &&
                           ranges.back().lr_factor == range.lr_factor && ranges.back().decay == range.decay;
        if (joins) {
            ranges.back().last = range.last;
        } else {
            ranges.push_back(range);
        }
    }
    return ranges;
}

}  // namespace ogrom
