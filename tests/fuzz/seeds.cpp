// fuzz_seeds CORPUS: writes the first inputs, CORPUS/TARGET/seed-*, as the program itself writes such files.
#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <string>

#include "src/base/file.h"
#include "src/data/tokenizer_file.h"
#include "src/io/hf_gpt2.h"
#include "src/io/manifest.h"
#include "src/io/replay_trace.h"
#include "src/io/safetensors.h"

#include "tests/fuzz/small_checkpoint.h"
#include "tests/fuzz/support.h"

namespace {

using namespace ogrom;  // NOLINT: a program of one page

using Put = std::function<void(const std::string& target, const std::string& name, const std::string& bytes)>;

void put_manifests(const Put& put) {
    Manifest manifest{1, 12, {{master_name, 4096, {{1, 2}}}, {part_name(0), 0, {}}}};
    put("manifest", "small", to_text(manifest));
    manifest.files.push_back({part_name(1), manifest_block_bytes + 1, {{3, 4}, {~u64{0}, 5}}});
    put("manifest", "blocks", to_text(manifest));
}

void put_traces(const Put& put) {
    ReplayRecord record{12, 77, 8, {}, {}};
    record.conditions = {.ranks = 2,
                         .arithmetic = "fp32",
                         .repeatable = true,
                         .any_layout = true,
                         .bits_depend_on = {{"kernels", "products \"own\""}},
                         .layout = {{"parallel.zero", "1"}}};
    record.rows.push_back({13, 1.0 / 3, 0.1, 1e-3, false, 5});
    put("trace", "one", to_text(record));
    record.rows.push_back({14, std::numeric_limits<double>::quiet_NaN(), 0.1, 1e-3, true, 6});
    put("trace", "nan", to_text(record));
}

void put_tensors(const Put& put) {
    const std::vector<SafeEntry> entries = {
        {"a", Dtype::fp32, {2, 3}}, {"b", Dtype::bf16, {1}}, {"c", Dtype::fp64, {}}};
    put("safetensors", "types", safetensors_header(entries) + std::string(24 + 2 + 8, '\x3f'));
    put("safetensors", "empty", safetensors_header({}));
    const std::string header = R"({"x":{"dtype":"I64","shape":[0,3],"data_offsets":[0,0]}})";
    put("safetensors", "other", std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header);
    put("hf_index", "two",
        R"({"metadata":{"total_size":18},"weight_map":{"a":"shard-1.safetensors",)"
        R"("b":"shard-1.safetensors","c":"shard-2.safetensors"}})");
    put("hf_index", "missing", R"({"weight_map":{"a":"shard-3.safetensors","c":"../shard-2.safetensors"}})");
}

void put_models(const Put& put) {
    ModelConfig model = fuzz::small_model();
    model.ffn_hidden = 16;
    put("hf_config", "small", hf_config(model, Dtype::fp32, 4));
    put("hf_config", "short",
        R"({"model_type":"gpt2","n_layer":1,"n_embd":4,"n_head":2,"vocab_size":5,)"
        R"("n_positions":3,"n_inner":null,"quantization_config":null,"x":[[]]})");
    std::string vocabulary;
    for (int byte = 0; byte < 256; ++byte) {
        const char* const escape = byte == '"' || byte == '\\' ? "\\" : "";
        const std::string symbol = symbol_of_bytes(std::string(1, static_cast<char>(byte)));
        vocabulary += fmt::format("{}\"{}{}\":{}", byte == 0 ? "" : ",", escape, symbol, byte);
    }
    put("tokenizer", "bytes",
        R"({"model":{"type":"BPE","vocab":{)" + vocabulary +
            R"(,"lo":256,"low":257},"merges":["l o",["lo","w"]]},"pre_tokenizer":{"type":"ByteLevel",)"
            R"("add_prefix_space":false},"decoder":{"type":"ByteLevel"},"added_tokens":[{"id":258,)"
            R"("content":"<|endoftext|>","special":true}]})");
    put("tokenizer", "small",
        R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"pre_tokenizer":{"type":"ByteLevel",)"
        R"("add_prefix_space":false,"trim_offsets":true,"use_regex":true},"decoder":{"type":"ByteLevel"},)"
        R"("added_tokens":[]})");
}

void put_masters(const Put& put) {
    const std::string step = fuzz::save_small_checkpoint(fuzz::folder());
    put("master", "small", read_file(join_path(step, master_name), i64{1} << 24));
    put("master", "part", read_file(join_path(step, part_name(0)), i64{1} << 24));
    put("master_edits", "none", "");
    for (char kind = 0; kind < 5; ++kind) {
        put("master_edits", fmt::format("kind-{}", static_cast<int>(kind)),
            {0, kind, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4});
    }
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const std::string corpus = argc == 2 ? argv[1] : "";
        require(!corpus.empty(), ExitCode::usage, "usage: fuzz_seeds CORPUS");
        const Put put = [&](const std::string& target, const std::string& name, const std::string& bytes) {
            make_directories(join_path(corpus, target));
            fuzz::put_bytes(join_path(join_path(corpus, target), "seed-" + name), bytes);
            std::printf("%s/seed-%s: %zu bytes\n", target.c_str(), name.c_str(), bytes.size());
        };
        put_manifests(put);
        put_traces(put);
        put_tensors(put);
        put_models(put);
        put_masters(put);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "fuzz_seeds: %s\n", error.what());
        return 1;
    }
}
