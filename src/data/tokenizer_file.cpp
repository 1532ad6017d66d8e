#include "src/data/tokenizer_file.h"

#include <array>
#include <fmt/core.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/common/error.h"

#include "src/data/bpe.h"
#include "src/data/unicode.h"

namespace ogrom {

namespace {

bool names_itself(unsigned byte) {
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct ByteNames {
    std::array<u32, 256> point{};          // by byte
    std::array<std::int16_t, 324> byte{};  // by point; -1 = names no byte
};

const ByteNames& byte_names() {
    static const ByteNames names = [] {
        ByteNames made;
        made.byte.fill(-1);
        u32 next = 256;
        for (unsigned b = 0; b < 256; ++b) {
            made.point[b] = names_itself(b) ? b : next++;
            made.byte[made.point[b]] = static_cast<std::int16_t>(b);
        }
        return made;
    }();
    return names;
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
    fail(ExitCode::data, where + ": " + what);
}

}  // namespace

std::string symbol_of_bytes(std::string_view bytes) {
    std::string symbol;
    for (const char byte : bytes) {
        append_utf8(byte_names().point[static_cast<unsigned char>(byte)], symbol);
    }
    return symbol;
}

std::optional<std::string> bytes_of_symbol(std::string_view symbol) {
    std::string bytes;
    const char* const end = symbol.data() + symbol.size();
    for (const char* at = symbol.data(); at < end;) {
        const Utf8Char c = decode_utf8(at, end);
        if (!c.valid || c.point >= byte_names().byte.size() || byte_names().byte[c.point] < 0) {
            return std::nullopt;
        }
        bytes.push_back(static_cast<char>(static_cast<unsigned char>(byte_names().byte[c.point])));
        at += c.bytes;
    }
    return bytes;
}

std::vector<unsigned char> bytes_by_symbol() {
    std::vector<unsigned char> bytes;
    for (const bool itself : {true, false}) {
        for (unsigned b = 0; b < 256; ++b) {
            if (names_itself(b) == itself) {
                bytes.push_back(static_cast<unsigned char>(b));
            }
        }
    }
    return bytes;
}

std::string MergePlace::text() const {
    return form == Form::line ? fmt::format("{}:{}", path, number) : fmt::format("{}: model.merges[{}]", path, number);
}

void VocabBuilder::place(const std::string& text, i64 id, const std::string& name) {
    if (id < 0 || id >= bpe_id_limit) {
        refuse(path_, fmt::format("'{}': id {} is out of range; ids are 0 .. {}", name, id, bpe_id_limit - 1));
    }
    if (id >= static_cast<i64>(texts_.size())) {
        texts_.resize(static_cast<std::size_t>(id) + 1);
    }
    if (texts_[id]) {
        refuse(path_, fmt::format("id {} has two names, '{}' and '{}'", id, symbol_of_bytes(*texts_[id]), name));
    }
    texts_[id] = text;
}

void VocabBuilder::add(const std::string& symbol, i64 id) {
    if (symbol.empty()) {
        refuse(path_, fmt::format("id {}: an empty entry", id));
    }
    // A name outside the byte alphabet is its own text, as the ByteLevel decoder has it.
    place(bytes_of_symbol(symbol).value_or(symbol), id, symbol);
    if (!ids_.emplace(symbol, static_cast<std::int32_t>(id)).second) {
        refuse(path_, fmt::format("'{}' stands twice in the vocabulary", symbol));
    }
}

void VocabBuilder::add_token(const std::string& content, i64 id, AddedToken::Kind kind, const std::string& where) {
    for (const auto& other : added_) {
        if (other.content == content) {
            refuse(where, fmt::format("added token '{}' stands twice", content));
        }
    }
    if (const auto found = ids_.find(content); found != ids_.end()) {
        if (found->second != id) {
            refuse(where,
                   fmt::format("added token '{}' has id {}, the vocabulary gives it {}", content, id, found->second));
        }
        texts_[id] = content;
    } else {
        place(content, id, content);
    }
    added_.push_back({content, static_cast<std::int32_t>(id), kind});
}

std::int32_t VocabBuilder::known(std::string_view symbol, const MergePlace& where) const {
    const auto found = ids_.find(std::string(symbol));
    if (found == ids_.end()) {
        refuse(where.text(), fmt::format("'{}' is not in the vocabulary", symbol));
    }
    return found->second;
}

void VocabBuilder::add_merge(std::string_view left, std::string_view right, const MergePlace& where) {
    if (left.empty() || right.empty()) {
        refuse(where.text(), "a merge needs two symbols, neither of them empty");
    }
    const Tokenizer::Merge merge{known(left, where), known(right, where),
                                 known(std::string(left) + std::string(right), where)};
    const u64 pair = (u64{static_cast<u32>(merge.left)} << 32) | static_cast<u32>(merge.right);
    if (const auto [at, fresh] = merged_.emplace(pair, where.number); !fresh) {
        refuse(where.text(), fmt::format("merge '{} {}' stood already at {}", left, right,
                                         MergePlace{where.path, where.form, at->second}.text()));
    }
    merges_.push_back(merge);
}

void VocabBuilder::add_merge_line(std::string_view line, const MergePlace& where) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos) {
        refuse(where.text(), fmt::format("'{}' is not a merge: two symbols with one blank between them", line));
    }
    add_merge(line.substr(0, blank), line.substr(blank + 1), where);
}

Tokenizer VocabBuilder::build() {
    try {
        return Tokenizer::from_parts(std::move(texts_), merges_, std::move(added_));
    } catch (const Error& error) {
        refuse(path_, error.what());
    }
}

std::string tokenizer_json(const std::vector<std::string>& texts, const std::vector<Tokenizer::Merge>& merges,
                           const std::vector<AddedToken>& added) {
    using Json = nlohmann::ordered_json;
    std::vector<const AddedToken*> added_at(texts.size(), nullptr);
    Json tokens = Json::array();
    for (const auto& token : added) {
        added_at[token.id] = &token;
        tokens.push_back({{"id", token.id},
                          {"content", token.content},
                          {"single_word", false},
                          {"lstrip", false},
                          {"rstrip", false},
                          {"normalized", false},
                          {"special", token.kind == AddedToken::Kind::special}});
    }
    Json vocab = Json::object();
    // As a plain list: the ordered map looks through all keys before it adds one.
    auto& entries = static_cast<Json::object_t::Container&>(vocab.get_ref<Json::object_t&>());
    std::vector<std::string> symbols;
    for (std::size_t id = 0; id < texts.size(); ++id) {
        symbols.push_back(added_at[id] != nullptr ? texts[id] : symbol_of_bytes(texts[id]));
        entries.emplace_back(symbols.back(), id);
    }
    Json rules = Json::array();
    for (const auto& merge : merges) {
        rules.push_back(Json::array({symbols[merge.left], symbols[merge.right]}));
    }
    const Json byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    return Json{{"version", "1.0"},
                {"truncation", nullptr},
                {"padding", nullptr},
                {"added_tokens", tokens},
                {"normalizer", nullptr},
                {"pre_tokenizer", byte_level},
                {"post_processor", nullptr},
                {"decoder", byte_level},
                {"model",
                 {{"type", "BPE"},
                  {"dropout", nullptr},
                  {"unk_token", nullptr},
                  {"continuing_subword_prefix", nullptr},
                  {"end_of_word_suffix", nullptr},
                  {"fuse_unk", false},
                  {"byte_fallback", false},
                  {"ignore_merges", false},
                  {"vocab", vocab},
                  {"merges", rules}}}}
               .dump(1, ' ') +
           "\n";
}

}  // namespace ogrom
