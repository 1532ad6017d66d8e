// ONNX export: a folder with model.onnx (the graph) and model.onnx.data (every weight, fp32), which belongs beside it.
#pragma once
#include <string>
#include <vector>

#include "src/io/onnx_graph.h"
#include "src/model/parameters.h"

namespace ogrom {

struct OnnxReport {
    i64 step = 0;
    i64 tensors = 0, parameters = 0;
    i64 model_bytes = 0, data_bytes = 0;
};

// Where each weight stands in the data file: in the order of the table, on pages, tied copies left out.
std::vector<OnnxTensor> onnx_layout(const ParameterTable& table);

// Makes the folder `out` from `checkpoint` (as for read_header), piece by piece: host memory does not grow with the
// model. Error(usage): a name that is taken, a model that the graph does not express. Error(checkpoint): a damaged
// checkpoint, a full disk, a value beyond fp32; nothing is left then.
OnnxReport export_onnx(const std::string& checkpoint, const std::string& out);

}  // namespace ogrom
