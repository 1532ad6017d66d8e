// Comes in: config.json or a model. Goes out: the other of the two, and the table of names. Next: io/hf_import.cpp,
// io/hf_export.cpp
#include "src/io/hf_gpt2.h"

#include <fmt/format.h>
#include <set>

#include "src/base/json.h"
#include "src/base/text.h"

namespace ogrom {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& path, const std::string& key, const json& value, const std::string& right) {
    fail(ExitCode::data, fmt::format("{}: {} = {}; would be right: {}", path, key, json_text(value), right));
}

// A config.json with the keys that were looked at.
class Config {
public:
    Config(const std::string& path, json root) : path_(path), root_(std::move(root)) {}
    // Null counts as absent, as transformers takes it.
    const json* find(const std::string& key) {
        seen_.insert(key);
        const auto found = root_.find(key);
        return found == root_.end() || found->is_null() ? nullptr : &*found;
    }
    i64 extent(const std::string& key, std::optional<i64> otherwise) {
        constexpr i64 limit = i64{1} << 31;
        const json* value = find(key);
        if (value == nullptr) {
            if (!otherwise) {
                fail(ExitCode::data, fmt::format("{}: {} is missing", path_, key));
            }
            return *otherwise;
        }
        if (!value->is_number_integer() || *value < 1 || *value >= limit) {
            refuse(path_, key, *value, "a whole number from 1 to 2^31 - 1");
        }
        return value->get<i64>();
    }
    double real(const std::string& key, double otherwise, double most) {
        const json* value = find(key);
        if (value == nullptr) {
            return otherwise;
        }
        if (!value->is_number() || value->get<double>() < 0 || value->get<double>() >= most) {
            refuse(path_, key, *value, fmt::format("a number from 0 to below {}", most));
        }
        return value->get<double>();
    }
    bool flag(const std::string& key, bool otherwise) {
        const json* value = find(key);
        if (value != nullptr && !value->is_boolean()) {
            refuse(path_, key, *value, "true or false");
        }
        return value == nullptr ? otherwise : value->get<bool>();
    }
    // The only values that this program has a model for.
    void demand(const std::string& key, const std::vector<json>& allowed) {
        const json* value = find(key);
        for (const json& one : allowed) {
            if (value == nullptr || *value == one) {
                return;
            }
        }
        refuse(path_, key, *value, json_text(allowed.front()));
    }
    void forget(const std::vector<std::string>& keys) { seen_.insert(keys.begin(), keys.end()); }
    [[nodiscard]] std::vector<std::string> unused() const {
        std::vector<std::string> names;
        for (const auto& [key, value] : root_.items()) {
            if (!seen_.contains(key)) {
                names.push_back(key);
            }
        }
        return names;
    }
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
    json root_;
    std::set<std::string> seen_;
};

json read_json(const std::string& path) {
    constexpr i64 longest = i64{1} << 20;
    json root = parse_json<json>(read_file(path, longest, ExitCode::data), path, ExitCode::data);
    require(root.is_object(), ExitCode::data, path + ": no object of keys");
    return root;
}

void demand_known_model(Config& config) {
    if (config.find("model_type") == nullptr) {
        fail(ExitCode::data, config.path() + ": model_type is missing; would be right: \"gpt2\"");
    }
    config.demand("model_type", {"gpt2"});
    config.demand("architectures", {json::array({"GPT2LMHeadModel"}), json::array({"GPT2Model"})});
    config.demand("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
    config.demand("scale_attn_weights", {true});
    config.demand("scale_attn_by_inverse_layer_idx", {false});
    config.demand("add_cross_attention", {false});
    config.demand("is_decoder", {true, false});
    if (const json* value = config.find("quantization_config")) {
        refuse(config.path(), "quantization_config", *value, "no such key: quantized weights are not read");
    }
    config.forget({"reorder_and_upcast_attn", "transformers_version", "torch_dtype", "dtype", "use_cache",
                   "bos_token_id", "eos_token_id", "pad_token_id", "summary_activation", "summary_first_dropout",
                   "summary_proj_to_labels", "summary_type", "summary_use_proj", "task_specific_params",
                   "_name_or_path"});
}

}  // namespace

ModelConfig parse_hf_config(const std::string& path, std::vector<std::string>& unused) {
    Config config(path, read_json(path));
    demand_known_model(config);
    ModelConfig model;
    model.layers = config.extent("n_layer", std::nullopt);
    model.hidden = config.extent("n_embd", std::nullopt);
    model.heads = model.kv_heads = config.extent("n_head", std::nullopt);
    model.vocab = config.extent("vocab_size", std::nullopt);
    model.sequence = config.extent("n_positions", std::nullopt);
    model.ffn_hidden = config.extent("n_inner", 4 * model.hidden);
    if (model.hidden % model.heads != 0) {
        refuse(path, "n_head", model.heads, fmt::format("a divisor of n_embd = {}", model.hidden));
    }
    if (config.extent("n_ctx", model.sequence) != model.sequence) {
        refuse(path, "n_ctx", *config.find("n_ctx"), fmt::format("n_positions = {}", model.sequence));
    }
    model.head_dim = model.hidden / model.heads;
    model.padded_vocab = round_up(model.vocab, model.vocab_multiple);
    model.tied = config.flag("tie_word_embeddings", true);
    model.norm_epsilon = config.real("layer_norm_epsilon", 1e-5, 1);
    model.dropout_embedding = config.real("embd_pdrop", 0.1, 1);
    model.dropout_attention = config.real("attn_pdrop", 0.1, 1);
    model.dropout_residual = config.real("resid_pdrop", 0.1, 1);
    model.init_std = config.real("initializer_range", 0.02, 1e3);
    unused = config.unused();
    return model;
}

std::string hf_config(const ModelConfig& model, Dtype type, std::optional<std::int32_t> end_of_document) {
    const auto need = [](bool there, const std::string& key) {
        require(there, ExitCode::usage,
                fmt::format("--to hf: {} of this checkpoint's model has no form in Hugging Face's GPT-2", key));
    };
    need(model.norm == NormKind::layer, "model.norm");
    need(model.position == PositionKind::learned, "model.position");
    need(model.mlp == MlpKind::gelu, "model.mlp");
    need(model.bias, "model.bias = false");
    need(model.kv_heads == model.heads, fmt::format("model.kv_heads = {}", model.kv_heads));
    need(model.head_dim * model.heads == model.hidden, fmt::format("model.head_dim = {}", model.head_dim));
    const json end = end_of_document ? json(*end_of_document) : json();
    const char* const torch = type == Dtype::fp64   ? "float64"
                              : type == Dtype::bf16 ? "bfloat16"
                              : type == Dtype::fp16 ? "float16"
                                                    : "float32";
    const json inner = model.ffn_hidden == 4 * model.hidden ? json() : json(model.ffn_hidden);
    const nlohmann::ordered_json config = {{"architectures", {"GPT2LMHeadModel"}},
                                           {"model_type", "gpt2"},
                                           {"activation_function", "gelu_new"},
                                           {"n_layer", model.layers},
                                           {"n_embd", model.hidden},
                                           {"n_head", model.heads},
                                           {"n_inner", inner},
                                           {"n_positions", model.sequence},
                                           {"vocab_size", model.vocab},
                                           {"tie_word_embeddings", model.tied},
                                           {"layer_norm_epsilon", model.norm_epsilon},
                                           {"embd_pdrop", model.dropout_embedding},
                                           {"attn_pdrop", model.dropout_attention},
                                           {"resid_pdrop", model.dropout_residual},
                                           {"initializer_range", model.init_std},
                                           {"bos_token_id", end},
                                           {"eos_token_id", end},
                                           {"torch_dtype", torch}};
    return config.dump(2) + "\n";
}

std::vector<HfTensor> hf_tensors(const ModelConfig& model) {
    const i64 hidden = model.hidden, ffn = model.ffn_hidden;
    std::vector<HfTensor> list = {{"wte.weight", {model.vocab, hidden}, false, {"embedding.token.weight"}},
                                  {"wpe.weight", {model.sequence, hidden}, false, {"embedding.position.weight"}}};
    const auto norm = [&](const std::string& theirs, const std::string& ours) {
        for (const char* kind : {".weight", ".bias"}) {
            list.push_back({theirs + kind, {hidden}, false, {ours + kind}});
        }
    };
    const auto linear = [&](const std::string& theirs, i64 in, i64 out, const std::vector<std::string>& ours) {
        HfTensor weight{theirs + ".weight", {in, out}, true, {}}, bias{theirs + ".bias", {out}, false, {}};
        for (const std::string& row : ours) {
            weight.rows.push_back(row + ".weight");
            bias.rows.push_back(row + ".bias");
        }
        list.push_back(weight);
        list.push_back(bias);
    };
    for (i64 layer = 0; layer < model.layers; ++layer) {
        const std::string theirs = fmt::format("h.{}.", layer), ours = fmt::format("block.{}.", layer);
        norm(theirs + "ln_1", ours + "norm1");
        linear(theirs + "attn.c_attn", hidden, 3 * hidden,
               {ours + "attention.query", ours + "attention.key", ours + "attention.value"});
        linear(theirs + "attn.c_proj", hidden, hidden, {ours + "attention.out"});
        norm(theirs + "ln_2", ours + "norm2");
        linear(theirs + "mlp.c_fc", hidden, ffn, {ours + "mlp.up"});
        linear(theirs + "mlp.c_proj", ffn, hidden, {ours + "mlp.down"});
    }
    norm("ln_f", "final_norm");
    if (!model.tied) {
        list.push_back({"lm_head.weight", {model.vocab, hidden}, false, {"head.weight"}});
    }
    return list;
}

}  // namespace ogrom
