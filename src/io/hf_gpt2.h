// The two ways between a folder of Hugging Face's GPT-2 (io/hf_folder.h) and a checkpoint, and config.json. Tensor by
// tensor: host memory does not grow with the number of layers.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "src/io/checkpoint_reader.h"
#include "src/io/checkpoint_rewrite.h"
#include "src/io/hf_folder.h"

namespace ogrom {

// In the header's extra: the type of the files that a checkpoint was made from.
inline constexpr const char* hf_type_key = "imported_type";

// config.json both ways. Error(data): a key whose value this program has no model for, with key and value. Keys that
// decide nothing here are named in `unused`.
ModelConfig parse_hf_config(const std::string& path, std::vector<std::string>& unused);
std::string hf_config(const ModelConfig& model, Dtype type, std::optional<std::int32_t> end_of_document);

// A folder of Hugging Face's form as the state of a run after 0 steps, weights alone: fp64 where a tensor is F64, else
// fp32. Error(data) names what is missing, unexpected or of another shape.
class HfSource : public StateSource {
public:
    explicit HfSource(const std::string& folder);
    [[nodiscard]] const std::string& folder() const override { return folder_.path(); }
    [[nodiscard]] const CheckpointHeader& header() const override { return header_; }
    [[nodiscard]] const ModelConfig& model() const override { return folder_.model(); }
    [[nodiscard]] const ParameterTable& table() const override { return table_; }
    [[nodiscard]] Dtype type() const override { return folder_.type(); }
    [[nodiscard]] const std::vector<std::string>& groups() const override { return groups_; }
    void read(const std::string& group, const Parameter& tensor, i64 first, i64 count, std::byte* to) const override;
    [[nodiscard]] const std::vector<std::string>& unused() const { return folder_.unused(); }

private:
    void name_tokenizer();
    void remember_type();

    HfFolder folder_;
    std::vector<std::string> groups_{"weights"};
    ParameterTable table_{{}};
    CheckpointHeader header_;
};

struct HfReport {
    i64 step = 0, tensors = 0, parameters = 0, files = 0, bytes = 0;
    Dtype type = Dtype::fp32;
    std::string tokenizer;        // what became of it, a line for the log
    bool tokenizer_left = false;  // the folder has none
};
// Makes `out` from a checkpoint: config.json, model.safetensors (or shards of at most `shard_bytes`, and an index),
// tokenizer files. `type`: of the values; none: that of the files that the checkpoint was made from, where it holds
// their values still (step 0), else as the checkpoint has them.
HfReport export_hf(const std::string& checkpoint, const std::string& out, std::optional<Dtype> type, i64 shard_bytes);

}  // namespace ogrom
