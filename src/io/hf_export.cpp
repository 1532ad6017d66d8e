// Comes in: a checkpoint. Goes out: a folder that transformers reads. Next: io/safetensors.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/text.h"
#include "src/data/tokenizer.h"
#include "src/data/tokenizer_file.h"
#include "src/io/hf_gpt2.h"
#include "src/io/output_folder.h"

namespace ogrom {
namespace {

constexpr i64 piece_elements = i64{4} << 20;

void put_text(const Disk& disk, const std::string& folder, const std::string& name, const std::string& text) {
    DurableFile file(disk, join_path(folder, name));
    file.append(std::as_bytes(std::span(text)));
    file.finish();
}

class Export {
public:
    Export(const CheckpointReader& reader, Dtype type, i64 shard_bytes) : reader_(reader), type_(type) {
        i64 filled = 0;
        for (const HfTensor& tensor : hf_tensors(reader.model())) {
            const SafeEntry entry{full_name(tensor.name), type, tensor.shape};
            if (shards_.empty() || filled + entry.bytes() > shard_bytes) {
                shards_.emplace_back();
                filled = 0;
            }
            shards_.back().push_back(tensor);
            filled += entry.bytes();
            bytes_ += entry.bytes();
        }
    }
    [[nodiscard]] i64 bytes() const { return bytes_; }
    [[nodiscard]] i64 files() const { return static_cast<i64>(shards_.size()); }

    void write(const Disk& disk, const std::string& folder) const {
        nlohmann::ordered_json index = {{"metadata", {{"total_size", bytes_}}}, {"weight_map", {}}};
        for (std::size_t n = 0; n < shards_.size(); ++n) {
            const std::string name = shards_.size() == 1
                                         ? "model.safetensors"
                                         : fmt::format("model-{:05}-of-{:05}.safetensors", n + 1, shards_.size());
            std::vector<SafeEntry> entries;
            for (const HfTensor& tensor : shards_[n]) {
                entries.push_back({full_name(tensor.name), type_, tensor.shape});
                index["weight_map"][entries.back().name] = name;
            }
            DurableFile file(disk, join_path(folder, name));
            const std::string header = safetensors_header(entries);
            file.append(std::as_bytes(std::span(header)));
            for (const HfTensor& tensor : shards_[n]) {
                if (reader_.type() == Dtype::fp64) {
                    append<double>(tensor, file);
                } else {
                    append<float>(tensor, file);
                }
            }
            file.finish();
        }
        if (shards_.size() > 1) {
            put_text(disk, folder, "model.safetensors.index.json", index.dump(2) + "\n");
        }
    }

private:
    static std::string full_name(const std::string& name) {
        return name.starts_with("lm_head.") ? name : "transformer." + name;
    }

    template <class T>
    void append(const HfTensor& tensor, DurableFile& file) const {
        if (tensor.conv1d) {
            const std::vector<T> turned = turned_rows<T>(tensor);
            in_pieces(static_cast<i64>(turned.size()), [&](i64 first, i64 count) {
                file.append(narrowed(turned.data() + first, count, type_, tensor.name));
            });
            return;
        }
        std::vector<T> values;
        for (const std::string& name : tensor.rows) {
            const Parameter& row = reader_.table().row(name);
            in_pieces(row.count(), [&](i64 first, i64 count) {
                values.resize(static_cast<std::size_t>(count));
                reader_.read("weights", row, first, count, reinterpret_cast<std::byte*>(values.data()));
                file.append(narrowed(values.data(), count, type_, tensor.name));
            });
        }
    }

    template <class Use>
    static void in_pieces(i64 all, Use use) {
        for (i64 first = 0; first < all; first += piece_elements) {
            use(first, std::min(piece_elements, all - first));
        }
    }

    // [in, out] of all rows side by side.
    template <class T>
    std::vector<T> turned_rows(const HfTensor& tensor) const {
        const i64 in = tensor.shape[0], columns = tensor.shape[1];
        std::vector<T> turned(static_cast<std::size_t>(in * columns)), values;
        i64 column = 0;
        for (const std::string& name : tensor.rows) {
            const Parameter& row = reader_.table().row(name);
            values.resize(static_cast<std::size_t>(row.count()));
            reader_.read("weights", row, 0, row.count(), reinterpret_cast<std::byte*>(values.data()));
            for (i64 o = 0; o < row.shape[0]; ++o, ++column) {
                for (i64 i = 0; i < in; ++i) {
                    turned[static_cast<std::size_t>(i * columns + column)] =
                        values[static_cast<std::size_t>(o * in + i)];
                }
            }
        }
        return turned;
    }

    const CheckpointReader& reader_;
    Dtype type_;
    std::vector<std::vector<HfTensor>> shards_;
    i64 bytes_ = 0;
};

// The tokenizer that the checkpoint was trained with, where it still is; none: `line` says why.
std::optional<Tokenizer> tokenizer_of(const CheckpointHeader& header, std::string& line) {
    const std::string& path = header.tokenizer_path;
    if (path.empty() || (path != "byte" && !file_exists(path))) {
        line = path.empty() ? "no tokenizer files: the checkpoint names no tokenizer"
                            : fmt::format("no tokenizer files: {} is not there any more", path);
        return std::nullopt;
    }
    Tokenizer tokenizer = Tokenizer::load(path);
    if (tokenizer.identity() != header.tokenizer) {
        line = fmt::format("no tokenizer files: {} is another tokenizer than that of the checkpoint", path);
        return std::nullopt;
    }
    line = "tokenizer from " + path;
    return tokenizer;
}

std::string byte_tokenizer_json(const Tokenizer& tokenizer) {
    constexpr std::int32_t bytes = 256;
    std::vector<std::string> texts;
    texts.reserve(bytes + 1);
    for (std::int32_t id = 0; id < bytes; ++id) {
        texts.emplace_back(1, static_cast<char>(id));
    }
    texts.emplace_back("<|endoftext|>");
    return tokenizer_json(texts, {}, {{texts.back(), tokenizer.eod().value_or(bytes), AddedToken::Kind::special}});
}

void put_tokenizer(const Disk& disk, const std::string& folder, const std::string& path, const Tokenizer& tokenizer,
                   i64 sequence) {
    constexpr i64 longest = i64{1} << 30;
    const auto copy = [&](const std::string& from, const char* name) {
        put_text(disk, folder, name, read_file(from, longest, ExitCode::data));
    };
    if (path == "byte") {
        put_text(disk, folder, "tokenizer.json", byte_tokenizer_json(tokenizer));
    } else if (!is_directory(path)) {
        copy(path, "tokenizer.json");
    } else if (const std::string json = join_path(path, "tokenizer.json"); file_exists(json)) {
        copy(json, "tokenizer.json");
    } else {
        const bool old = file_exists(join_path(path, "encoder.json")) && file_exists(join_path(path, "vocab.bpe"));
        copy(join_path(path, old ? "encoder.json" : "vocab.json"), "vocab.json");
        copy(join_path(path, old ? "vocab.bpe" : "merges.txt"), "merges.txt");
    }
    nlohmann::ordered_json config = {
        {"tokenizer_class", "GPT2TokenizerFast"}, {"model_max_length", sequence}, {"add_prefix_space", false}};
    if (tokenizer.eod()) {
        const std::string end(tokenizer.text_of(*tokenizer.eod()).value_or("<|endoftext|>"));
        for (const char* key : {"bos_token", "eos_token", "unk_token"}) {
            config[key] = end.empty() ? "<|endoftext|>" : end;
        }
    }
    put_text(disk, folder, "tokenizer_config.json", config.dump(2) + "\n");
}

// Values that came from 16 bits go back into them without a loss.
Dtype natural_type(const CheckpointReader& reader) {
    const auto found = reader.header().extra.find(hf_type_key);
    if (found != reader.header().extra.end() && reader.header().step == 0) {
        for (const Dtype type : {Dtype::bf16, Dtype::fp16}) {
            if (found->second == name_of(type)) {
                return type;
            }
        }
    }
    return reader.type();
}

}  // namespace

HfReport export_hf(const std::string& checkpoint, const std::string& out, std::optional<Dtype> type, i64 shard_bytes) {
    const CheckpointReader reader(checkpoint, Kept::weights);
    require(reader.type() == Dtype::fp32 || reader.type() == Dtype::fp64, ExitCode::usage,
            fmt::format("{}: weights in {}; the export reads fp32 and fp64", reader.folder(), name_of(reader.type())));
    HfReport report;
    report.type = type.value_or(natural_type(reader));
    const std::optional<Tokenizer> tokenizer = tokenizer_of(reader.header(), report.tokenizer);
    const std::string config =
        hf_config(reader.model(), report.type, tokenizer ? tokenizer->eod() : std::optional<std::int32_t>());
    const Export plan(reader, report.type, shard_bytes);
    const Disk disk;
    OutputFolder folder(disk, out);
    folder.require_room(plan.bytes());
    plan.write(disk, folder.path());
    put_text(disk, folder.path(), "config.json", config);
    if (tokenizer) {
        put_tokenizer(disk, folder.path(), reader.header().tokenizer_path, *tokenizer, reader.model().sequence);
    }
    folder.commit();
    report.tokenizer_left = !tokenizer;
    report.step = reader.header().step;
    report.tensors = static_cast<i64>(hf_tensors(reader.model()).size());
    report.parameters = reader.table().count();
    report.files = plan.files();
    report.bytes = plan.bytes();
    return report;
}

}  // namespace ogrom
