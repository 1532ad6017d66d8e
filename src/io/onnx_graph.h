// The GPT model as an ONNX graph (opset 17, standard operators only):
//   input_ids int64 [batch, sequence] -> logits float [batch, sequence, vocab]
// both first extents free, the sequence up to that of the model. Weights stand in a file beside it.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/config/model.h"

namespace ogrom {

inline constexpr const char* onnx_model_name = "model.onnx";
inline constexpr const char* onnx_data_name = "model.onnx.data";

// A weight in the data file, under its name of the parameter table; row-major fp32.
struct OnnxTensor {
    std::string name;
    std::vector<i64> shape;
    i64 offset = 0, bytes = 0;
};

// The serialised ModelProto. `metadata`: kept as it is (metadata_props).
std::string onnx_model(const ModelConfig& model, std::span<const OnnxTensor> weights,
                       const std::map<std::string, std::string>& metadata);

}  // namespace ogrom
