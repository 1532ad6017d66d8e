// The exported model read back with a small reader of the wire format: names, extents, places of the weights, and that
// the graph is one (every input is made before it is used, every name once). ONNX Runtime compares logits in
// tests/peers/check_onnx.py.
#include "src/io/onnx.h"

#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "src/io/protobuf_writer.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;
using test::SmallState;

// A message: values by field number, in order. Numbers as text of 8 bytes.
class Message {
public:
    explicit Message(std::string_view text) {
        while (!text.empty()) {
            const u64 key = varint(text);
            const auto field = static_cast<int>(key >> 3);
            std::size_t size = 0;
            if ((key & 7) == 0) {
                numbers_[field].push_back(static_cast<i64>(varint(text)));
                continue;
            }
            size = (key & 7) == 5 ? 4 : varint(text);
            EXPECT_TRUE((key & 7) == 5 || (key & 7) == 2) << "wire type " << (key & 7);
            EXPECT_LE(size, text.size());
            texts_[field].emplace_back(text.substr(0, size));
            text.remove_prefix(std::min(size, text.size()));
        }
    }
    [[nodiscard]] i64 number(int field) const { return numbers_.at(field).at(0); }
    [[nodiscard]] std::vector<i64> numbers(int field) const {
        return numbers_.contains(field) ? numbers_.at(field) : std::vector<i64>();
    }
    [[nodiscard]] std::string text(int field) const { return texts_.at(field).at(0); }
    [[nodiscard]] std::vector<std::string> texts(int field) const {
        return texts_.contains(field) ? texts_.at(field) : std::vector<std::string>();
    }
    [[nodiscard]] Message message(int field) const { return Message(texts_.at(field).at(0)); }
    [[nodiscard]] std::vector<Message> messages(int field) const {
        const std::vector<std::string> all = texts(field);
        return {all.begin(), all.end()};
    }

private:
    static u64 varint(std::string_view& text) {
        u64 value = 0;
        for (int shift = 0; !text.empty(); shift += 7) {
            const auto byte = static_cast<unsigned char>(text.front());
            text.remove_prefix(1);
            value |= static_cast<u64>(byte & 0x7f) << shift;
            if ((byte & 0x80) == 0) {
                break;
            }
        }
        return value;
    }
    std::map<int, std::vector<i64>> numbers_;
    std::map<int, std::vector<std::string>> texts_;
};

std::map<std::string, std::string> entries(const Message& message, int field) {
    std::map<std::string, std::string> pairs;
    for (const Message& pair : message.messages(field)) {
        EXPECT_TRUE(pairs.emplace(pair.text(1), pair.text(2)).second) << pair.text(1);
    }
    return pairs;
}

struct Exported {
    Message model{""}, graph{""};
    std::string data;
};
Exported read_export(const std::string& folder) {
    Exported found;
    found.model = Message(read_file(folder + "/model.onnx", i64{1} << 24));
    found.graph = found.model.message(7);
    found.data = read_file(folder + "/model.onnx.data", i64{1} << 24);
    return found;
}

template <class T>
std::string save(const Folder& folder, const SmallState<T>& state) {
    CheckpointHeader header = test::small_header(4);
    header.weight_hash = weight_hash(std::span<const T>(state.weights), state.layout);
    save_checkpoint<T>(*make_single_communicator(), folder.path("run"), header, state.layout, state.model,
                       state.const_view(), 0);
    return folder.path("run");
}

ModelConfig model_of(bool tied, bool bias) {
    ModelConfig model = test::small_model();
    model.tied = tied;
    model.bias = bias;
    return model;
}

// Every weight of the model stands once in the data file, with its values, on a page of its own.
template <class T>
void expect_weights(const Exported& found, const SmallState<T>& state) {
    std::map<std::string, Message> stored;
    i64 end = 0;
    for (const Message& tensor : found.graph.messages(5)) {
        if (!tensor.numbers(14).empty()) {
            EXPECT_TRUE(stored.emplace(tensor.text(8), tensor).second) << tensor.text(8);
        }
    }
    std::size_t wanted = 0;
    for (const LocalTensor& local : state.layout.tensors()) {
        const Parameter& row = *local.parameter;
        if (!row.tie.empty()) {
            continue;
        }
        ++wanted;
        ASSERT_TRUE(stored.contains(row.name)) << row.name;
        const Message& tensor = stored.at(row.name);
        const auto place = entries(tensor, 13);
        EXPECT_EQ(tensor.numbers(1), row.shape) << row.name;
        EXPECT_EQ(tensor.number(2), 1) << row.name;
        EXPECT_EQ(tensor.number(14), 1) << row.name;
        EXPECT_EQ(place.at("location"), "model.onnx.data");
        const i64 offset = std::stoll(place.at("offset")), length = std::stoll(place.at("length"));
        EXPECT_EQ(offset % 4096, 0) << row.name;
        EXPECT_GE(offset, end) << row.name;
        ASSERT_EQ(length, row.count() * 4) << row.name;
        end = offset + length;
        ASSERT_LE(end, static_cast<i64>(found.data.size())) << row.name;
        for (i64 i = 0; i < row.count(); ++i) {
            float value = 0;
            std::memcpy(&value, found.data.data() + offset + 4 * i, sizeof value);
            ASSERT_EQ(value, static_cast<float>(state.weights[static_cast<std::size_t>(local.offset + i)])) << row.name;
        }
    }
    EXPECT_EQ(stored.size(), wanted);
    EXPECT_EQ(end, static_cast<i64>(found.data.size()));
}

std::map<std::string, int> expect_graph(const Message& graph) {
    std::set<std::string> made = {"input_ids"}, used;
    for (const Message& tensor : graph.messages(5)) {
        EXPECT_TRUE(made.insert(tensor.text(8)).second) << tensor.text(8) << " twice";
    }
    std::map<std::string, int> operators;
    for (const Message& node : graph.messages(1)) {
        for (const std::string& input : node.texts(1)) {
            EXPECT_TRUE(made.contains(input)) << node.text(3) << " reads " << input << ", which nothing made";
            used.insert(input);
        }
        EXPECT_EQ(node.texts(2).size(), 1u);
        EXPECT_TRUE(made.insert(node.text(2)).second) << node.text(2) << " twice";
        ++operators[node.text(4)];
    }
    used.insert("logits");
    for (const std::string& name : made) {
        EXPECT_TRUE(used.contains(name)) << name << " is used by nothing";
    }
    return operators;
}

void expect_value(const Message& value, const std::string& name, i64 type, const std::vector<std::string>& extents) {
    EXPECT_EQ(value.text(1), name);
    const Message tensor = value.message(2).message(1);
    EXPECT_EQ(tensor.number(1), type);
    std::vector<std::string> found;
    for (const Message& extent : tensor.message(2).messages(1)) {
        found.push_back(extent.texts(2).empty() ? std::to_string(extent.number(1)) : extent.text(2));
    }
    EXPECT_EQ(found, extents);
}

template <class T>
void expect_export(bool tied, bool bias) {
    const Folder folder;
    const SmallState<T> state(model_of(tied, bias));
    const OnnxReport report = export_onnx(save(folder, state), folder.path("out"));
    EXPECT_EQ(list_directory(folder.path("out")), (std::vector<std::string>{"model.onnx", "model.onnx.data"}));
    EXPECT_EQ(list_directory(folder.path()), (std::vector<std::string>{"out", "run"}));
    const Exported found = read_export(folder.path("out"));
    EXPECT_EQ(report.data_bytes, static_cast<i64>(found.data.size()));
    EXPECT_EQ(report.parameters, state.table.count());

    EXPECT_EQ(found.model.number(1), 8);              // IR version
    EXPECT_EQ(found.model.message(8).number(2), 17);  // operators of opset 17 of the standard domain
    EXPECT_TRUE(found.model.message(8).texts(1).empty());
    EXPECT_EQ(entries(found.model, 14).at("ogrom.step"), "4");
    ASSERT_EQ(found.graph.messages(11).size(), 1u);
    ASSERT_EQ(found.graph.messages(12).size(), 1u);
    expect_value(found.graph.messages(11)[0], "input_ids", 7, {"batch", "sequence"});
    expect_value(found.graph.messages(12)[0], "logits", 1, {"batch", "sequence", "37"});
    expect_weights(found, state);

    const std::map<std::string, int> operators = expect_graph(found.graph);
    const std::map<std::string, int> wanted = {
        {"Add", 1 + 2 * 4},        {"Concat", 2},    {"Gather", 2},  {"Gemm", 2 * 6 + 1}, {"GreaterOrEqual", 1},
        {"LayerNormalization", 5}, {"MatMul", 4},    {"Mul", 2 * 5}, {"Pow", 2},          {"Range", 1},
        {"Reshape", 2 + 2 * 4},    {"Shape", 1},     {"Softmax", 2}, {"Squeeze", 1},      {"Tanh", 2},
        {"Transpose", 2 * 4},      {"Unsqueeze", 2}, {"Where", 2}};
    EXPECT_EQ(operators, wanted);
}

TEST(Onnx, HoldsEveryWeightOnceAndOneGraph) {
    for (const bool tied : {true, false}) {
        for (const bool bias : {true, false}) {
            SCOPED_TRACE(std::string(tied ? "tied" : "untied") + (bias ? ", biases" : ", no biases"));
            expect_export<float>(tied, bias);
        }
    }
    expect_export<double>(true, true);
}

// Field case B65: no offset, length or sum passes through 32 bits, and the graph does not grow with the weights.
TEST(Onnx, B65WeightsPastTwoToThe31HaveTheirPlaces) {
    ModelConfig model;
    model.layers = 48;
    model.hidden = 12288;
    model.heads = model.kv_heads = 96;
    model.head_dim = 128;
    model.ffn_hidden = 4 * model.hidden;
    model.vocab = 200'003;
    model.padded_vocab = 200'064;
    model.sequence = 2048;
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    const std::vector<OnnxTensor> weights = onnx_layout(table);
    i64 end = 0, bytes = 0;
    for (const OnnxTensor& weight : weights) {
        EXPECT_EQ(weight.offset % 4096, 0);
        EXPECT_GE(weight.offset, end);
        end = weight.offset + weight.bytes;
        bytes += weight.bytes;
    }
    EXPECT_EQ(weights[0].bytes, 200'003 * i64{12288} * 4);
    EXPECT_EQ(bytes, 4 * table.count());
    EXPECT_GT(weights.back().offset, i64{1} << 38);
    const std::string text = onnx_model(model, weights, {});
    EXPECT_LT(text.size(), 1u << 20);
    std::map<std::string, std::string> offsets;
    for (const Message& tensor : Message(text).message(7).messages(5)) {
        if (!tensor.numbers(14).empty()) {
            offsets[tensor.text(8)] = entries(tensor, 13).at("offset");
        }
    }
    EXPECT_EQ(offsets.size(), weights.size());
    for (const OnnxTensor& weight : weights) {
        EXPECT_EQ(offsets[weight.name], std::to_string(weight.offset));
    }
}

TEST(Onnx, ADamagedCheckpointOrATakenNameLeavesNothing) {
    const Folder folder;
    const SmallState<float> state(test::small_model());
    const std::string run = save(folder, state);
    make_directories(folder.path("taken/inside"));
    try {
        export_onnx(run, folder.path("taken"));
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_NE(std::string(error.what()).find("is there already"), std::string::npos) << error.what();
    }
    const std::string part = run + "/step-00000004/part-00000.h5";
    std::string bytes = read_file(part, i64{1} << 24);
    bytes[5000] = static_cast<char>(bytes[5000] ^ 1);
    write_file_atomic(part, bytes);
    const std::string fault = test::fault_text([&] { export_onnx(run, folder.path("out")); });
    EXPECT_NE(fault.find("part-00000.h5: block 0"), std::string::npos) << fault;
    EXPECT_EQ(list_directory(folder.path()), (std::vector<std::string>{"run", "taken"}));
}

TEST(Onnx, ADoubleBeyondSinglePrecisionIsNamed) {
    const Folder folder;
    SmallState<double> state(test::small_model());
    state.weights[static_cast<std::size_t>(state.layout.tensor("final_norm.bias").offset)] = 1e300;
    const std::string run = save(folder, state);
    const std::string fault = test::fault_text([&] { export_onnx(run, folder.path("out")); });
    EXPECT_NE(fault.find("final_norm.bias: the value 1e+300 is beyond fp32"), std::string::npos) << fault;
    EXPECT_EQ(list_directory(folder.path()), std::vector<std::string>{"run"});
}

// Bytes of the encoding, as its documentation has them.
TEST(ProtobufWriter, KnownBytes) {
    ProtobufWriter message;
    message.integer(1, 150);
    EXPECT_EQ(message.text(), std::string("\x08\x96\x01"));
    message.bytes(2, "testing");
    EXPECT_EQ(message.text().substr(3), std::string("\x12\x07testing"));
    ProtobufWriter outer;
    outer.message(3, message);
    EXPECT_EQ(outer.text().substr(0, 2), std::string("\x1a\x0c"));
    ProtobufWriter numbers;
    numbers.integer(1, -2);
    EXPECT_EQ(numbers.text(), std::string("\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    ProtobufWriter real;
    real.real(2, 1.0f);
    EXPECT_EQ(real.text(), std::string("\x15\x00\x00\x80\x3f", 5));
    ProtobufWriter large;
    large.integer(20, (i64{1} << 31) + 1);
    EXPECT_EQ(large.text(), std::string("\xa0\x01\x81\x80\x80\x80\x08"));
}

}  // namespace
}  // namespace ogrom
