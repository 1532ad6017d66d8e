// ogrom convert SOURCE --to FORMAT --out FOLDER: a checkpoint in another form (--from: into a checkpoint). One file for
// each format.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "kernels/common/dtype.h"

namespace ogrom {

struct ConvertOptions {
    std::string source, out;
    i64 writers = 1;
    bool weights_only = false;
    std::optional<Dtype> type;  // of an export's values; none: as stored
    i64 shard_bytes = i64{5} << 30;
};

int convert_to_ogrom(const ConvertOptions& options);
int convert_to_onnx(const ConvertOptions& options);
int convert_to_hf(const ConvertOptions& options);
int convert_from_hf(const ConvertOptions& options);

}  // namespace ogrom
