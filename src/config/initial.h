// The model of a run file against that of the weights a run is to start with (checkpoint.init_from).
#pragma once
#include <string>
#include <vector>

#include "src/config/run.h"

namespace ogrom {

struct ModelDifference {
    enum class Weight {
        own,      // of training alone, as dropout: the run file's value is used
        tensors,  // decides which tensors there are, or the extents of some: the others can be loaded
        meaning   // nothing would fit, or tensors of equal extents would mean something else
    };
    std::string key;
    std::string source, current;  // values as TOML text
    Weight weight = Weight::tensors;
};

// Keys of [model] whose values differ, in the order of the schema; one that follows from another that differs is left
// out.
std::vector<ModelDifference> model_differences(const ModelConfig& source, const RunConfig& current);

}  // namespace ogrom
