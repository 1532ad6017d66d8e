// config.json of a GPT-2 beside its tensors. Input: config.json; the tensors are those of a model that fits
// corpus/hf_config/seed-small.json.
#include "src/base/log.h"
#include "src/io/hf_gpt2.h"

#include "tests/fuzz/support.h"

namespace {

// One layer, hidden 4, vocabulary 5, 3 positions; values 0.
std::string tensors() {
    ogrom::ModelConfig model;
    model.layers = 1;
    model.hidden = 4;
    model.heads = model.kv_heads = 2;
    model.head_dim = 2;
    model.ffn_hidden = 16;
    model.vocab = 5;
    model.sequence = 3;
    std::vector<ogrom::SafeEntry> entries;
    ogrom::i64 bytes = 0;
    for (const ogrom::HfTensor& tensor : ogrom::hf_tensors(model)) {
        entries.push_back({tensor.name, ogrom::Dtype::fp32, tensor.shape});
        bytes += entries.back().bytes();
    }
    return ogrom::safetensors_header(entries) + std::string(static_cast<std::size_t>(bytes), '\0');
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::string model = [] {
        ogrom::set_log_level(ogrom::LogLevel::error);
        return ogrom::fuzz::put_file("model.safetensors", tensors());
    }();
    ogrom::fuzz::put_file("config.json", ogrom::fuzz::text_of(data, size));
    ogrom::fuzz::accept([] { const ogrom::HfSource source(ogrom::fuzz::folder()); });
    return 0;
}
