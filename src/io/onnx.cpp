// Comes in: a checkpoint. Goes out: a folder for ONNX Runtime. The weights are stored as the checkpoint has them,
// [out, in], so that they are copied and never turned. Next: io/onnx_graph.cpp
#include "src/io/onnx.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <span>
#include <type_traits>

#include "kernels/common/fault.h"

#include "src/io/checkpoint_reader.h"
#include "src/io/output_folder.h"

namespace ogrom {
namespace {

static_assert(std::endian::native == std::endian::little);  // as ONNX stores raw data

constexpr i64 page = 4096;  // ONNX Runtime maps weights that start on pages
constexpr i64 piece_elements = i64{4} << 20;

void require_expressible(const ModelConfig& model) {
    require(model.kv_heads == model.heads, ExitCode::usage,
            fmt::format("--to onnx: model.kv_heads {} differs from model.heads {}: the graph of grouped heads is not "
                        "built yet",
                        model.kv_heads, model.heads));
}

std::vector<float> as_single(std::span<const double> wide, const std::string& tensor) {
    std::vector<float> narrow;
    narrow.reserve(wide.size());
    for (const double value : wide) {
        narrow.push_back(static_cast<float>(value));
        if (std::isinf(narrow.back()) && !std::isinf(value)) {
            fail(ExitCode::checkpoint, fmt::format("{}: the value {} is beyond fp32", tensor, value));
        }
    }
    return narrow;
}

// Elements of a tensor to the end of the file, in fp32.
template <class T>
void append_values(const CheckpointReader& reader, const Parameter& tensor, DurableFile& file) {
    std::vector<T> values;
    for (i64 first = 0; first < tensor.count(); first += piece_elements) {
        values.resize(static_cast<std::size_t>(std::min(piece_elements, tensor.count() - first)));
        reader.read("weights", tensor, first, static_cast<i64>(values.size()),
                    reinterpret_cast<std::byte*>(values.data()));
        if constexpr (std::is_same_v<T, double>) {
            const std::vector<float> single = as_single(values, tensor.name);
            file.append(std::as_bytes(std::span(single)));
        } else {
            file.append(std::as_bytes(std::span(values)));
        }
    }
}

void append_zeros(DurableFile& file, i64 until) {
    const std::vector<std::byte> zeros(static_cast<std::size_t>(until - file.position()));
    file.append(zeros);
}

i64 write_data(const CheckpointReader& reader, std::span<const OnnxTensor> weights, const Disk& disk,
               const std::string& folder) {
    DurableFile file(disk, join_path(folder, onnx_data_name));
    for (const OnnxTensor& weight : weights) {
        const Parameter& row = reader.table().row(weight.name);
        const Parameter& tensor = row.tie.empty() ? row : reader.table().row(row.tie);
        append_zeros(file, weight.offset);
        if (reader.type() == Dtype::fp64) {
            append_values<double>(reader, tensor, file);
        } else {
            append_values<float>(reader, tensor, file);
        }
    }
    return file.finish().bytes;
}

std::map<std::string, std::string> metadata_of(const CheckpointReader& reader) {
    const CheckpointHeader& header = reader.header();
    return {{"ogrom.format", "1"},
            {"ogrom.step", std::to_string(header.step)},
            {"ogrom.weight_hash", fmt::format("{:016x}", header.weight_hash)},
            {"ogrom.tokenizer", header.tokenizer},
            {"ogrom.sequence", std::to_string(reader.model().sequence)}};
}

}  // namespace

std::vector<OnnxTensor> onnx_layout(const ParameterTable& table) {
    std::vector<OnnxTensor> weights;
    i64 at = 0;
    for (const Parameter& row : table.rows()) {
        if (!row.tie.empty() && !fault_active("onnx_tied_written_twice")) {
            continue;
        }
        const i64 bytes = row.count() * size_of(Dtype::fp32);
        weights.push_back({row.name, row.shape, at, bytes});
        at = round_up(at + bytes, page);
    }
    return weights;
}

OnnxReport export_onnx(const std::string& checkpoint, const std::string& out) {
    const CheckpointReader reader(checkpoint, Kept::weights);
    require_expressible(reader.model());
    require(reader.type() == Dtype::fp32 || reader.type() == Dtype::fp64, ExitCode::usage,
            fmt::format("{}: weights in {}; the export reads fp32 and fp64", reader.folder(), name_of(reader.type())));
    const Disk disk;
    OutputFolder folder(disk, out);
    const std::vector<OnnxTensor> weights = onnx_layout(reader.table());
    const std::string graph = onnx_model(reader.model(), weights, metadata_of(reader));
    OnnxReport report{reader.header().step, static_cast<i64>(weights.size()), reader.table().count(),
                      static_cast<i64>(graph.size()), 0};
    folder.require_room(weights.back().offset + weights.back().bytes + report.model_bytes);
    report.data_bytes = write_data(reader, weights, disk, folder.path());
    DurableFile file(disk, join_path(folder.path(), onnx_model_name));
    file.append(std::as_bytes(std::span(graph)));
    file.finish();
    folder.commit();
    return report;
}

}  // namespace ogrom
