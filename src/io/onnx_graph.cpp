// Comes in: model description and where each weight stands in the data file. Goes out: the bytes of model.onnx. The
// residual stream is [batch * sequence, C] all the way, so that each linear layer is one Gemm with the weight as it is
// stored, [out, in]; only attention sees batch and heads. Next: io/onnx.cpp
#include "src/io/onnx_graph.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "src/base/version.h"
#include "src/io/protobuf_writer.h"

namespace ogrom {
namespace {

// Field numbers and enumerators of onnx.proto3 (IR version 8).
namespace field {
constexpr int model_ir_version = 1, model_producer = 2, model_producer_version = 3, model_graph = 7, model_opset = 8,
              model_metadata = 14;
constexpr int opset_version = 2;
constexpr int entry_key = 1, entry_value = 2;
constexpr int graph_node = 1, graph_name = 2, graph_initializer = 5, graph_input = 11, graph_output = 12;
constexpr int node_input = 1, node_output = 2, node_name = 3, node_operator = 4, node_attribute = 5;
constexpr int attribute_name = 1, attribute_real = 2, attribute_integer = 3, attribute_integers = 8,
              attribute_type = 20;
constexpr int tensor_extent = 1, tensor_type = 2, tensor_name = 8, tensor_raw = 9, tensor_external = 13,
              tensor_location = 14;
constexpr int value_name = 1, value_type = 2, type_tensor = 1, type_element = 1, type_shape = 2, shape_extent = 1,
              extent_value = 1, extent_name = 2;
}  // namespace field
enum AttributeType { real = 1, integer = 2, integers = 7 };
enum ElementType { fp32 = 1, int64 = 7 };
constexpr i64 ir_version = 8, opset = 17, external = 1;

ProtobufWriter entry(const std::string& key, const std::string& value) {
    ProtobufWriter pair;
    pair.bytes(field::entry_key, key);
    pair.bytes(field::entry_value, value);
    return pair;
}

ProtobufWriter attribute(const std::string& name, i64 value) {
    ProtobufWriter made;
    made.bytes(field::attribute_name, name);
    made.integer(field::attribute_integer, value);
    made.integer(field::attribute_type, integer);
    return made;
}
ProtobufWriter attribute(const std::string& name, double value) {
    ProtobufWriter made;
    made.bytes(field::attribute_name, name);
    made.real(field::attribute_real, static_cast<float>(value));
    made.integer(field::attribute_type, real);
    return made;
}
ProtobufWriter attribute(const std::string& name, const std::vector<i64>& values) {
    ProtobufWriter made;
    made.bytes(field::attribute_name, name);
    for (const i64 value : values) {
        made.integer(field::attribute_integers, value);
    }
    made.integer(field::attribute_type, integers);
    return made;
}

// An extent is a number, or a name where it is free.
struct Extent {
    i64 value = 0;
    std::string name;
};
ProtobufWriter tensor_value(const std::string& name, ElementType type, const std::vector<Extent>& extents) {
    ProtobufWriter shape;
    for (const Extent& extent : extents) {
        ProtobufWriter one;
        if (extent.name.empty()) {
            one.integer(field::extent_value, extent.value);
        } else {
            one.bytes(field::extent_name, extent.name);
        }
        shape.message(field::shape_extent, one);
    }
    ProtobufWriter tensor, kind, value;
    tensor.integer(field::type_element, type);
    tensor.message(field::type_shape, shape);
    kind.message(field::type_tensor, tensor);
    value.bytes(field::value_name, name);
    value.message(field::value_type, kind);
    return value;
}

using Names = std::vector<std::string>;
using Attributes = std::vector<ProtobufWriter>;

class Graph {
public:
    Graph(const ModelConfig& model, std::span<const OnnxTensor> weights) : model_(model) {
        for (const OnnxTensor& weight : weights) {
            external_weight(weight);
        }
    }
    ProtobufWriter build() {
        graph_.bytes(field::graph_name, "gpt");
        graph_.message(field::graph_input, tensor_value("input_ids", int64, {{0, "batch"}, {0, "sequence"}}));
        graph_.message(field::graph_output,
                       tensor_value("logits", fp32, {{0, "batch"}, {0, "sequence"}, {model_.vocab, ""}}));
        constants();
        std::string x = embedding();
        for (i64 layer = 0; layer < model_.layers; ++layer) {
            x = block(fmt::format("block.{}.", layer), x);
        }
        head(x);
        return graph_;
    }

private:
    void external_weight(const OnnxTensor& weight);
    void constant(const std::string& name, ElementType type, const std::vector<i64>& shape, std::string_view raw);
    void integers_constant(const std::string& name, const std::vector<i64>& shape, const std::vector<i64>& values);
    void real_constant(const std::string& name, double value);
    // One operator with one result, which has the name of the node.
    std::string node(const std::string& name, const std::string& kind, const Names& inputs,
                     const Attributes& attributes = {});
    void constants();
    std::string embedding();
    std::string norm(const std::string& name, const std::string& x);
    std::string linear(const std::string& name, const std::string& x);
    std::string heads(const std::string& name, const std::string& x, const std::vector<i64>& order);
    std::string attention(const std::string& name, const std::string& x);
    std::string gelu(const std::string& name, const std::string& u);
    std::string block(const std::string& name, const std::string& x);
    void head(const std::string& x);

    const ModelConfig& model_;
    ProtobufWriter graph_;
};

void Graph::external_weight(const OnnxTensor& weight) {
    ProtobufWriter tensor;
    for (const i64 extent : weight.shape) {
        tensor.integer(field::tensor_extent, extent);
    }
    tensor.integer(field::tensor_type, fp32);
    tensor.bytes(field::tensor_name, weight.name);
    tensor.message(field::tensor_external, entry("location", onnx_data_name));
    tensor.message(field::tensor_external, entry("offset", std::to_string(weight.offset)));
    tensor.message(field::tensor_external, entry("length", std::to_string(weight.bytes)));
    tensor.integer(field::tensor_location, external);
    graph_.message(field::graph_initializer, tensor);
}

void Graph::constant(const std::string& name, ElementType type, const std::vector<i64>& shape, std::string_view raw) {
    ProtobufWriter tensor;
    for (const i64 extent : shape) {
        tensor.integer(field::tensor_extent, extent);
    }
    tensor.integer(field::tensor_type, type);
    tensor.bytes(field::tensor_name, name);
    tensor.bytes(field::tensor_raw, raw);
    graph_.message(field::graph_initializer, tensor);
}

void Graph::integers_constant(const std::string& name, const std::vector<i64>& shape, const std::vector<i64>& values) {
    constant(name, int64, shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(i64)});
}

void Graph::real_constant(const std::string& name, double value) {
    const float rounded = static_cast<float>(value);
    constant(name, fp32, {}, {reinterpret_cast<const char*>(&rounded), sizeof rounded});
}

std::string Graph::node(const std::string& name, const std::string& kind, const Names& inputs,
                        const Attributes& attributes) {
    ProtobufWriter made;
    for (const std::string& input : inputs) {
        made.bytes(field::node_input, input);
    }
    made.bytes(field::node_output, name);
    made.bytes(field::node_name, name);
    made.bytes(field::node_operator, kind);
    for (const ProtobufWriter& one : attributes) {
        made.message(field::node_attribute, one);
    }
    graph_.message(field::graph_node, made);
    return name;
}

void Graph::constants() {
    const i64 D = model_.head_dim;
    integers_constant("constant.zero", {}, {0});
    integers_constant("constant.one", {}, {1});
    integers_constant("constant.axis0", {1}, {0});
    integers_constant("constant.axis1", {1}, {1});
    integers_constant("constant.inferred", {1}, {-1});
    integers_constant("constant.rows", {2}, {-1, model_.hidden});
    integers_constant("constant.heads_joined", {2}, {-1, model_.heads * D});
    integers_constant("constant.heads", {2}, {model_.heads, D});
    integers_constant("constant.vocabulary", {1}, {model_.vocab});
    real_constant("constant.scale", 1 / std::sqrt(static_cast<double>(D)));
    // Far below every score: its exponential is 0, without the NaN that two infinities could make.
    real_constant("constant.masked", std::numeric_limits<float>::lowest());
    real_constant("constant.half", 0.5);
    real_constant("constant.one_real", 1);
    real_constant("constant.three", 3);
    real_constant("constant.gelu_cubic", 0.044715);
    real_constant("constant.gelu_factor", std::sqrt(2 / std::acos(-1.0)));
}

// x = token table[ids] + position table[0 .. T), and what every block needs: the shape [B, T, H, D] and the mask.
std::string Graph::embedding() {
    node("sequence", "Shape", {"input_ids"}, {attribute("start", i64{1}), attribute("end", i64{2})});
    node("sequence.scalar", "Squeeze", {"sequence", "constant.axis0"});
    node("positions", "Range", {"constant.zero", "sequence.scalar", "constant.one"});
    node("queries", "Unsqueeze", {"positions", "constant.axis1"});
    node("keys", "Unsqueeze", {"positions", "constant.axis0"});
    node("causal", "GreaterOrEqual", {"queries", "keys"});
    node("heads.shape", "Concat", {"constant.inferred", "sequence", "constant.heads"}, {attribute("axis", i64{0})});
    node("embedding.token", "Gather", {"embedding.token.weight", "input_ids"});
    node("embedding.position", "Gather", {"embedding.position.weight", "positions"});
    node("embedding.sum", "Add", {"embedding.token", "embedding.position"});
    return node("embedding", "Reshape", {"embedding.sum", "constant.rows"});
}

std::string Graph::norm(const std::string& name, const std::string& x) {
    Names inputs = {x, name + ".weight"};
    if (model_.bias) {
        inputs.push_back(name + ".bias");
    }
    return node(name, "LayerNormalization", inputs,
                {attribute("axis", i64{-1}), attribute("epsilon", model_.norm_epsilon)});
}

// y = x w^T + b
std::string Graph::linear(const std::string& name, const std::string& x) {
    Names inputs = {x, name + ".weight"};
    if (model_.bias) {
        inputs.push_back(name + ".bias");
    }
    return node(name, "Gemm", inputs, {attribute("transB", i64{1})});
}

// [B T, H D] -> [B, T, H, D] -> the order that a product wants.
std::string Graph::heads(const std::string& name, const std::string& x, const std::vector<i64>& order) {
    const std::string parts = node(name + ".heads", "Reshape", {linear(name, x), "heads.shape"});
    return node(name + ".ordered", "Transpose", {parts}, {attribute("perm", order)});
}

// softmax(scale q k^T, keys up to the query) v
std::string Graph::attention(const std::string& name, const std::string& x) {
    const std::string query = heads(name + "query", x, {0, 2, 1, 3}), key = heads(name + "key", x, {0, 2, 3, 1}),
                      value = heads(name + "value", x, {0, 2, 1, 3});
    const std::string products = node(name + "products", "MatMul", {query, key});
    const std::string scores = node(name + "scores", "Mul", {products, "constant.scale"});
    const std::string masked = node(name + "masked", "Where", {"causal", scores, "constant.masked"});
    const std::string weights = node(name + "weights", "Softmax", {masked}, {attribute("axis", i64{-1})});
    const std::string sums = node(name + "sums", "MatMul", {weights, value});
    const std::string rows = node(name + "rows", "Transpose", {sums}, {attribute("perm", {0, 2, 1, 3})});
    return linear(name + "out", node(name + "joined", "Reshape", {rows, "constant.heads_joined"}));
}

// u/2 (1 + tanh(sqrt(2/pi) (u + 0.044715 u^3)))
std::string Graph::gelu(const std::string& name, const std::string& u) {
    const std::string cube = node(name + ".cube", "Pow", {u, "constant.three"});
    const std::string small = node(name + ".small", "Mul", {cube, "constant.gelu_cubic"});
    const std::string sum = node(name + ".sum", "Add", {u, small});
    const std::string scaled = node(name + ".scaled", "Mul", {sum, "constant.gelu_factor"});
    const std::string tanh = node(name + ".tanh", "Tanh", {scaled});
    const std::string factor = node(name + ".factor", "Add", {tanh, "constant.one_real"});
    const std::string half = node(name + ".half", "Mul", {u, "constant.half"});
    return node(name, "Mul", {half, factor});
}

std::string Graph::block(const std::string& name, const std::string& x) {
    const std::string attended = attention(name + "attention.", norm(name + "norm1", x));
    const std::string middle = node(name + "middle", "Add", {x, attended});
    const std::string up = linear(name + "mlp.up", norm(name + "norm2", middle));
    const std::string down = linear(name + "mlp.down", gelu(name + "mlp.gelu", up));
    return node(name + "output", "Add", {middle, down});
}

void Graph::head(const std::string& x) {
    const std::string table = model_.tied ? "embedding.token.weight" : "head.weight";
    node("head", "Gemm", {norm("final_norm", x), table}, {attribute("transB", i64{1})});
    node("logits.shape", "Concat", {"constant.inferred", "sequence", "constant.vocabulary"},
         {attribute("axis", i64{0})});
    node("logits", "Reshape", {"head", "logits.shape"});
}

}  // namespace

std::string onnx_model(const ModelConfig& model, std::span<const OnnxTensor> weights,
                       const std::map<std::string, std::string>& metadata) {
    ProtobufWriter written, operators;
    written.integer(field::model_ir_version, ir_version);
    written.bytes(field::model_producer, "ogrom");
    written.bytes(field::model_producer_version, build_info().program);
    operators.integer(field::opset_version, opset);
    written.message(field::model_opset, operators);
    for (const auto& [key, value] : metadata) {
        written.message(field::model_metadata, entry(key, value));
    }
    written.message(field::model_graph, Graph(model, weights).build());
    return written.text();
}

}  // namespace ogrom
