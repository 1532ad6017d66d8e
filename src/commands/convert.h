// ogrom convert SOURCE --to FORMAT --out FOLDER: a checkpoint in another form. One file for each format.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "kernels/common/extents.h"

namespace ogrom {

struct ConvertOptions {
    std::string source, out;
    i64 writers = 1;
    bool weights_only = false;
};

int convert_to_ogrom(const ConvertOptions& options);
int convert_to_onnx(const ConvertOptions& options);

}  // namespace ogrom
