// A folder of Hugging Face's GPT-2 as a source of weights: names, extents and transposes of its tensors against our
// parameter rows. Comes in: the folder. Goes out: rectangles of rows, straight from the mapped files; before that only
// config.json and the headers are read. Next: io/hf_import.cpp (a checkpoint of it), train/initial.cpp (a run from it).
//   Conv1D (c_attn, c_proj, c_fc) is stored [in, out], ours [out, in]; c_attn is query, key and value side by side.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/data/tokenizer.h"
#include "src/io/checkpoint.h"
#include "src/io/checkpoint_layout.h"
#include "src/io/safetensors.h"

namespace ogrom {

struct HfTensor {
    std::string name;  // without the prefix "transformer."
    std::vector<i64> shape;
    bool conv1d = false;            // [in, out]
    std::vector<std::string> rows;  // ours; three for c_attn
};
// In the order of the model; lm_head.weight only where the head is not tied.
std::vector<HfTensor> hf_tensors(const ModelConfig& model);

// Whether `path` is meant as such a folder.
bool is_hf_folder(const std::string& path);

class HfFolder {
public:
    // Error(data): no such folder, a config.json or safetensors that cannot be read.
    explicit HfFolder(const std::string& path);
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] const ModelConfig& model() const { return model_; }                 // of config.json
    [[nodiscard]] const std::vector<std::string>& unused() const { return unused_; }  // keys of config.json

    // Where the rows of `model` stand. Returns a line for each tensor that is missing, unexpected or of another form
    // than `by` says ("by config.json"); the rows of the others can be read from now on.
    std::vector<std::string> match(const ModelConfig& model, const std::string& by);
    // Error(data): the token table of a tied model stands twice, under both of its names, with different values (field
    // case B62). Reads share `share` of `shares` of it; to be called after match().
    void require_equal_twins(int share, int shares) const;

    [[nodiscard]] bool holds(const std::string& row) const { return places_.contains(row); }
    [[nodiscard]] Dtype type() const { return type_; }       // fp64 where a row's tensor is F64, else fp32
    [[nodiscard]] std::optional<Dtype> stored_type() const;  // of all tensors of rows, where it is one
    // A rectangle of a row that holds(), row-major without gaps, widened to T.
    template <class T>
    void read(const Parameter& row, const TensorPiece& piece, T* to) const;

    [[nodiscard]] bool has_tokenizer() const;   // files of one
    [[nodiscard]] Tokenizer tokenizer() const;  // Error(data): files that this program cannot follow

private:
    struct Place {
        HfTensor tensor;
        std::string stored;  // its name in the files
        i64 part = 0;        // of c_attn
    };
    using Stored = std::map<std::string, std::string>;  // name without prefix -> name in the files
    Stored stored_names() const;
    void choose_table(Stored& stored, HfTensor& table);

    std::string path_;
    std::vector<std::string> unused_;
    ModelConfig model_;
    SafetensorsSet set_;  // opened after config.json was understood
    Dtype type_ = Dtype::fp32;
    std::map<std::string, Place> places_;  // by our name
    std::optional<std::pair<std::string, std::string>> twins_;
};

// Collective over all ranks of a layout, as load_checkpoint: fills `ranges` with what the folder holds() (padding 0, a
// tied copy from its source) and leaves the rest as it is; each rank reads what it needs.
template <class T>
LoadReport load_weights(Communicator& world, const HfFolder& folder, const ParameterLayout& layout,
                        const std::vector<HeldRange<T>>& ranges);

}  // namespace ogrom
