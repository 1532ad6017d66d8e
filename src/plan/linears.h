// What numerics.linears = "fp8" does to a model: the FLOPs that it covers, in numbers and in words.
#pragma once
#include <string>

#include "kernels/common/cost.h"

#include "src/config/run.h"
#include "src/model/stage.h"

namespace ogrom {

// The model as kernels/common/cost.h counts it.
cost::Model cost_model(const ModelConfig& model, i64 sequence);

// Whether the three products of a linear layer are made in fp8: the extents of each fit the tensor cores.
bool made_in_fp8(const StageShape& shape, const BlockLinear& linear);

// Share of the model's FLOPs that are made in fp8, 0 .. 1.
double fp8_share(const RunConfig& run, const StageShape& shape);

// Error(usage) where fp8 is asked for and no linear layer has extents that fit: the key would have no effect.
void require_fp8_somewhere(const RunConfig& run, const StageShape& shape);

// Lines for the plan: share, formats, scales and sums of each product, and what stays out.
std::string fp8_text(const RunConfig& run, const StageShape& shape);

}  // namespace ogrom
