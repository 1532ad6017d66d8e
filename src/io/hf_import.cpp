// Comes in: a folder of Hugging Face's form. Goes out: the values of our parameter rows. Next:
// io/checkpoint_rewrite.cpp
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <set>

#include "kernels/common/fault.h"

#include "src/base/log.h"
#include "src/base/text.h"
#include "src/data/tokenizer.h"
#include "src/io/hf_gpt2.h"

namespace ogrom {
namespace {

constexpr const char* prefix = "transformer.";
constexpr const char* table_name = "wte.weight";
constexpr const char* head_name = "lm_head.weight";

// Masks that old files carry along; nothing is learned in them.
bool is_mask(const std::string& name) {
    return name.starts_with("h.") && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

std::string config_of(const std::string& folder) {
    const std::string path = join_path(folder, "config.json");
    require(file_exists(path), ExitCode::data, folder + ": holds no config.json; not a folder of Hugging Face's form");
    return path;
}

}  // namespace

HfSource::HfSource(const std::string& folder)
    : folder_(folder), model_(parse_hf_config(config_of(folder), unused_)), set_(folder) {
    const i64 tensors = static_cast<i64>(set_.names().size());
    require(model_.layers <= tensors, ExitCode::data,
            fmt::format("{}: n_layer = {}, the files hold {} tensors", config_of(folder), model_.layers, tensors));
    find_tensors();
    table_ = make_parameters(model_, type_);
    find_tokenizer();
    header_.provenance_json = "{}";
    header_.extra["imported"] = "Hugging Face GPT-2";
    remember_type();
    header_.weight_hash = hash_weights(*this);
}

// Name without prefix -> name in the files.
std::map<std::string, std::string> HfSource::stored_names() const {
    std::map<std::string, std::string> stored;
    for (const std::string& full : set_.names()) {
        const std::string name = full.starts_with(prefix) ? full.substr(std::strlen(prefix)) : full;
        if (!is_mask(name) && !stored.emplace(name, full).second) {
            fail(ExitCode::data,
                 fmt::format("{}: tensor {} stands with and without \"{}\"", folder_, quote(name), prefix));
        }
    }
    return stored;
}

// A tied head: either of the two names, or both with the same values (field case B62).
void HfSource::choose_table(std::map<std::string, std::string>& stored, HfTensor& table) const {
    const auto head = stored.find(head_name);
    if (head == stored.end()) {
        return;
    }
    const auto own = stored.find(table_name);
    if (own == stored.end()) {
        table.name = head_name;
        return;
    }
    const SafeTensor &a = *set_.find(own->second), &b = *set_.find(head->second);
    bool same = a.shape == b.shape;
    constexpr i64 piece = i64{1} << 20;
    std::vector<double> left(static_cast<std::size_t>(piece)), right(left.size());
    for (i64 first = 0; same && first < a.count(); first += piece) {
        const i64 count = std::min(piece, a.count() - first);
        set_.read(own->second, first, count, left.data());
        set_.read(head->second, first, count, right.data());
        same = std::memcmp(left.data(), right.data(), static_cast<std::size_t>(count) * sizeof(double)) == 0;
    }
    require(same, ExitCode::data,
            fmt::format("{}: {} and {} differ, but tie_word_embeddings is true or absent in config.json; would be "
                        "right: false, or one of the two tensors alone",
                        folder_, quote(own->second), quote(head->second)));
    stored.erase(head);
}

void HfSource::find_tensors() {
    std::map<std::string, std::string> stored = stored_names();
    std::vector<HfTensor> wanted = hf_tensors(model_);
    if (model_.tied) {
        choose_table(stored, wanted.front());
    }
    std::vector<std::string> faults;
    for (const HfTensor& tensor : wanted) {
        const auto found = stored.find(tensor.name);
        if (found == stored.end()) {
            faults.push_back("missing: " + tensor.name);
            continue;
        }
        const SafeTensor& there = *set_.find(found->second);
        if (there.shape != tensor.shape) {
            faults.push_back(fmt::format("does not fit: {}: shape {} in the file, {} by config.json", found->second,
                                         h5::shape_text(there.shape), h5::shape_text(tensor.shape)));
        } else if (!there.held) {
            faults.push_back(
                fmt::format("does not fit: {}: dtype {}; F32, F16, BF16 and F64 are read", found->second, there.type));
        }
        type_ = there.held == Dtype::fp64 ? Dtype::fp64 : type_;
        for (std::size_t part = 0; part < tensor.rows.size(); ++part) {
            places_[tensor.rows[part]] = {tensor, found->second, static_cast<i64>(part)};
        }
        stored.erase(found);
    }
    for (const auto& [name, full] : stored) {
        faults.push_back("unexpected: " + full);
    }
    constexpr std::size_t listed = 50;
    const std::size_t all = faults.size();
    faults.resize(std::min(all, listed));
    require(all == 0, ExitCode::data,
            fmt::format("{}: {} tensors are not those of the GPT-2 that config.json describes:\n  {}{}", folder_, all,
                        join(faults, "\n  "), all > listed ? "\n  ..." : ""));
}

// Of the values in the files, for the way back: ours are wider. Files of several types come back in the widest.
void HfSource::remember_type() {
    std::set<Dtype> types;
    for (const auto& [row, place] : places_) {
        types.insert(*set_.find(place.stored)->held);
    }
    if (types.size() == 1) {
        header_.extra[hf_type_key] = name_of(*types.begin());
    } else {
        log_warning("{}: tensors of several types; an export without --dtype will be in {}", folder_, name_of(type_));
    }
}

void HfSource::find_tokenizer() {
    const auto there = [&](const char* name) { return file_exists(join_path(folder_, name)); };
    if (!there("tokenizer.json") && !there("vocab.json") && !there("encoder.json")) {
        log_info("{}: no tokenizer files; `ogrom sample` needs --tokenizer", folder_);
        return;
    }
    try {
        const Tokenizer tokenizer = Tokenizer::load(folder_);
        header_.tokenizer = tokenizer.identity();
        header_.tokenizer_path = std::filesystem::absolute(folder_).lexically_normal().string();
        if (tokenizer.vocab_size() != model_.vocab) {
            log_warning("{}: the tokenizer has {} ids, the model {} rows; all rows are kept", folder_,
                        tokenizer.vocab_size(), model_.vocab);
        }
    } catch (const Error& error) {
        log_warning("the tokenizer is left out: {}", error.what());
    }
}

template <class T>
void HfSource::read_as(const Place& place, const Parameter& tensor, i64 first, i64 count, T* to) const {
    const i64 parts = static_cast<i64>(place.tensor.rows.size());
    const i64 part = fault_active("hf_qkv_order") ? parts - 1 - place.part : place.part;
    if (!place.tensor.conv1d) {
        set_.read(place.stored, part * tensor.count() + first, count, to);
        return;
    }
    if (turned_name_ != tensor.name) {
        const i64 out = tensor.shape[0], in = tensor.shape[1];
        turned_.resize(static_cast<std::size_t>(tensor.count()) * sizeof(T));
        T* const turned = reinterpret_cast<T*>(turned_.data());
        std::vector<T> row(static_cast<std::size_t>(out));
        for (i64 i = 0; i < in; ++i) {
            set_.read(place.stored, i * parts * out + part * out, out, row.data());
            for (i64 o = 0; o < out; ++o) {
                turned[fault_active("conv1d_not_transposed") ? i * out + o : o * in + i] =
                    row[static_cast<std::size_t>(o)];
            }
        }
        turned_name_ = tensor.name;
    }
    std::memcpy(to, turned_.data() + static_cast<std::size_t>(first) * sizeof(T),
                static_cast<std::size_t>(count) * sizeof(T));
}

void HfSource::read(const std::string& /*group*/, const Parameter& tensor, i64 first, i64 count, std::byte* to) const {
    const Place& place = places_.at(tensor.name);
    if (type_ == Dtype::fp64) {
        read_as(place, tensor, first, count, reinterpret_cast<double*>(to));
    } else {
        read_as(place, tensor, first, count, reinterpret_cast<float*>(to));
    }
}

}  // namespace ogrom
