// Ranges of the flat buffer that an optimizer treats alike. Contiguous tensors with equal settings are one range, so a
// layer is a few calls and not one per tensor.
#pragma once
#include <vector>

#include "src/model/parameters.h"

namespace ogrom {

struct UpdateRange {
    i64 first = 0, last = 0;  // flat elements, padding included (its gradient is 0 and it stays 0)
    double lr_factor = 1;
    double decay = 0;  // weight_decay * decay_factor: 0 on biases and norms
};
// Pure. Frozen tensors and buffers are in no range.
std::vector<UpdateRange> make_update_ranges(const ParameterLayout& layout, double weight_decay);

}  // namespace ogrom
