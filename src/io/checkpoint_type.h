// In which type a checkpoint's weights are stored: `sample` and `inspect` have no run file that says it.
#pragma once
#include <string>

#include "kernels/common/dtype.h"

namespace ogrom {

// `checkpoint` as for read_header. Throws Error(checkpoint) when there is no such tensor or its type is none of ours.
Dtype read_weight_type(const std::string& checkpoint);

}  // namespace ogrom
