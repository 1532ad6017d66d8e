#include "src/data/tokenizer.h"

#include <algorithm>
#include <fmt/core.h>

#include "kernels/common/error.h"

#include "src/base/file.h"
#include "src/data/bpe.h"
#include "src/data/content_hash.h"
#include "src/data/pretokenize.h"
#include "src/data/tokenizer_file.h"
#include "src/data/word_cache.h"

namespace ogrom {

namespace {

constexpr std::int32_t byte_eod = 256;

}  // namespace

Tokenizer Tokenizer::byte_level() {
    return {};
}

Tokenizer Tokenizer::from_parts(std::vector<std::optional<std::string>> texts, const std::vector<Merge>& merges,
                                std::vector<AddedToken> added) {
    Tokenizer tokenizer;
    tokenizer.model_ = std::make_shared<const BpeModel>(std::move(texts), merges, std::move(added));
    return tokenizer;
}

Tokenizer Tokenizer::load(const std::string& name) {
    if (name == "byte") {
        return byte_level();
    }
    require(file_exists(name), ExitCode::data,
            name +
                ": no such tokenizer; give \"byte\", a tokenizer.json, or a folder that holds tokenizer.json, "
                "encoder.json + vocab.bpe, or vocab.json + merges.txt");
    if (!is_directory(name)) {
        return load_tokenizer_json(name);
    }
    if (const auto path = join_path(name, "tokenizer.json"); file_exists(path)) {
        return load_tokenizer_json(path);
    }
    constexpr const char* pairs[][2] = {{"encoder.json", "vocab.bpe"}, {"vocab.json", "merges.txt"}};
    for (const auto& pair : pairs) {
        const auto vocab = join_path(name, pair[0]);
        const auto merges = join_path(name, pair[1]);
        if (file_exists(vocab) && file_exists(merges)) {
            return load_vocab_and_merges(vocab, merges);
        }
    }
    fail(ExitCode::data, name +
                             ": the folder holds neither tokenizer.json, nor encoder.json + vocab.bpe, nor vocab.json "
                             "+ merges.txt");
}

i64 Tokenizer::vocab_size() const {
    return model_ ? static_cast<i64>(model_->texts().size()) : byte_eod + 1;
}

std::optional<std::int32_t> Tokenizer::eod() const {
    return model_ ? model_->eod() : byte_eod;
}

const std::string& Tokenizer::identity() const {
    return model_ ? model_->identity() : byte_level_identity();
}

std::vector<std::string> Tokenizer::report() const {
    if (!model_ || model_->gaps() == 0) {
        return {};
    }
    return {fmt::format("tokenizer: {} of the ids 0 .. {} have no entry", model_->gaps(), vocab_size() - 1)};
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, Specials specials) const {
    std::vector<std::int32_t> ids;
    Encoder(*this).encode(text, specials, ids);
    return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
    std::string text;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto piece = text_of(ids[i]);
        if (!piece) {
            fail(ExitCode::data, fmt::format("position {}: id {} has no text; ids of this tokenizer are 0 .. {}", i,
                                             ids[i], vocab_size() - 1));
        }
        text += *piece;
    }
    return text;
}

std::optional<std::string_view> Tokenizer::text_of(std::int32_t id) const {
    if (id < 0 || id >= vocab_size()) {
        return std::nullopt;
    }
    if (model_) {
        const auto& text = model_->texts()[id];
        return text ? std::optional<std::string_view>(*text) : std::nullopt;
    }
    if (id == byte_eod) {
        return "<|endoftext|>";
    }
    static const auto bytes = [] {
        std::array<char, 256> all{};
        for (unsigned b = 0; b < 256; ++b) {
            all[b] = static_cast<char>(static_cast<unsigned char>(b));
        }
        return all;
    }();
    return std::string_view(&bytes[id], 1);
}

struct Encoder::Impl {
    void words(std::string_view text, const char* readable, std::vector<std::int32_t>& out);
    void bytes(std::string_view text, Specials specials, std::vector<std::int32_t>& out) const;

    std::shared_ptr<const BpeModel> model;
    WordCache cache;
};

Encoder::Encoder(const Tokenizer& tokenizer) : impl_(std::make_unique<Impl>()) {
    impl_->model = tokenizer.model_;
}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&& other) noexcept = default;

void Encoder::encode(std::string_view text, Specials specials, std::vector<std::int32_t>& out) {
    if (!impl_->model) {
        impl_->bytes(text, specials, out);
        return;
    }
    const char* const readable = text.data() + text.size();
    for (i64 from = 0; from < static_cast<i64>(text.size());) {
        const auto match = impl_->model->find_added(text, from, specials);
        const i64 to = match.token == nullptr ? static_cast<i64>(text.size()) : match.at;
        impl_->words(text.substr(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)), readable, out);
        from = to;
        if (match.token != nullptr) {
            out.push_back(match.token->id);
            from += static_cast<i64>(match.token->content.size());
        }
    }
}

void Encoder::Impl::words(std::string_view text, const char* readable, std::vector<std::int32_t>& out) {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end) {
        const char* const stop = word_end(at, end);
        const std::string_view word(at, static_cast<std::size_t>(stop - at));
        at = stop;
        if (word.size() > static_cast<std::size_t>(WordKey::max_bytes)) {
            model->encode_word(word, out);
            continue;
        }
        const WordKey key = WordCache::key_of(word, readable);
        if (const auto* known = cache.find(key, word.size())) [[likely]] {
            const std::size_t size = out.size();
            if (out.capacity() - size < known->count) {
                out.reserve(2 * size + WordCache::max_ids);
            }
            out.insert(out.end(), known->ids.data(), known->ids.data() + known->count);
            continue;
        }
        const std::size_t first = out.size();
        model->encode_word(word, out);
        cache.insert(key, word.size(), out.data() + first, out.size() - first);
    }
}

void Encoder::Impl::bytes(std::string_view text, Specials specials, std::vector<std::int32_t>& out) const {
    constexpr std::string_view end_of_text = "<|endoftext|>";
    out.reserve(out.size() + text.size());
    while (!text.empty()) {
        const std::size_t found = specials == Specials::parse ? text.find(end_of_text) : std::string_view::npos;
        for (const char byte : text.substr(0, found)) {
            out.push_back(static_cast<unsigned char>(byte));
        }
        if (found == std::string_view::npos) {
            return;
        }
        out.push_back(byte_eod);
        text.remove_prefix(found + end_of_text.size());
    }
}

}  // namespace ogrom
