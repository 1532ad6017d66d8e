// Hugging Face's GPT-2 and our parameter rows: names, extents, transposes, config.json; and the two ways between a
// folder of that form and a checkpoint. Tensor by tensor: host memory does not grow with the number of layers.
//   Conv1D (c_attn, c_proj, c_fc) is stored [in, out], ours [out, in]; c_attn is query, key and value side by side.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/io/checkpoint_reader.h"
#include "src/io/checkpoint_rewrite.h"
#include "src/io/safetensors.h"

namespace ogrom {

// In the header's extra: the type of the files that a checkpoint was made from.
inline constexpr const char* hf_type_key = "imported_type";

struct HfTensor {
    std::string name;  // without the prefix "transformer."
    std::vector<i64> shape;
    bool conv1d = false;            // [in, out]
    std::vector<std::string> rows;  // ours; three for c_attn
};
// In the order of the model; lm_head.weight only where the head is not tied.
std::vector<HfTensor> hf_tensors(const ModelConfig& model);

// config.json both ways. Error(data): a key whose value this program has no model for, with key and value. Keys that
// decide nothing here are named in `unused`.
ModelConfig parse_hf_config(const std::string& path, std::vector<std::string>& unused);
std::string hf_config(const ModelConfig& model, Dtype type, std::optional<std::int32_t> end_of_document);

// A folder of Hugging Face's form as the state of a run after 0 steps, weights alone: fp64 where a tensor is F64, else
// fp32. Error(data) names what is missing, unexpected or of another shape.
class HfSource : public StateSource {
public:
    explicit HfSource(const std::string& folder);
    [[nodiscard]] const std::string& folder() const override { return folder_; }
    [[nodiscard]] const CheckpointHeader& header() const override { return header_; }
    [[nodiscard]] const ModelConfig& model() const override { return model_; }
    [[nodiscard]] const ParameterTable& table() const override { return table_; }
    [[nodiscard]] Dtype type() const override { return type_; }
    [[nodiscard]] const std::vector<std::string>& groups() const override { return groups_; }
    void read(const std::string& group, const Parameter& tensor, i64 first, i64 count, std::byte* to) const override;
    [[nodiscard]] const std::vector<std::string>& unused() const { return unused_; }

private:
    struct Place {
        HfTensor tensor;
        std::string stored;  // its name in the files
        i64 part = 0;        // of c_attn
    };
    std::map<std::string, std::string> stored_names() const;
    void find_tensors();
    void choose_table(std::map<std::string, std::string>& stored, HfTensor& table) const;
    void find_tokenizer();
    void remember_type();
    template <class T>
    void read_as(const Place& place, const Parameter& tensor, i64 first, i64 count, T* to) const;

    std::string folder_;
    std::vector<std::string> unused_, groups_{"weights"};
    ModelConfig model_;
    SafetensorsSet set_;  // opened after config.json was understood
    ParameterTable table_{{}};
    Dtype type_ = Dtype::fp32;
    CheckpointHeader header_;
    std::map<std::string, Place> places_;  // by our name
    mutable std::string turned_name_;      // the Conv1D row that was turned last
    mutable std::vector<std::byte> turned_;
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
