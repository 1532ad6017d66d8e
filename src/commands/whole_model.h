// The weights of a checkpoint whole in host memory, for the commands that evaluate a model on one process.
#pragma once
#include <fmt/format.h>
#include <string>
#include <vector>

#include "src/io/checkpoint.h"
#include "src/io/checkpoint_type.h"

namespace ogrom {

template <class T>
struct WholeModel {
    explicit WholeModel(const std::string& checkpoint)
        : model(read_model(checkpoint)),
          table(make_parameters(model, dtype_of<T>())),
          layout(table, StageSpan{.first_layer = 0, .last_layer = model.layers}),
          weights(static_cast<std::size_t>(layout.size())) {
        std::vector<std::string> skipped;
        load_checkpoint<T>(*make_single_communicator(), checkpoint, layout, {weights, {}, {}}, true, skipped);
    }
    WholeModel(const WholeModel&) = delete;  // the layout points into the table
    WholeModel& operator=(const WholeModel&) = delete;

    ModelConfig model;
    ParameterTable table;
    ParameterLayout layout;
    std::vector<T> weights;
};

// Calls `use` with a value of the checkpoint's type of weights.
template <class Use>
auto with_weight_type(const std::string& checkpoint, Use use) {
    const Dtype type = read_weight_type(checkpoint);
    require(type == Dtype::fp32 || type == Dtype::fp64, ExitCode::usage,
            fmt::format("{}: weights in {}; sampling is built for fp32 and fp64", checkpoint, name_of(type)));
    return type == Dtype::fp64 ? use(double{}) : use(float{});
}

}  // namespace ogrom
