// The file forms of a byte-level BPE. Readers throw Error(data) with file and line, key or array index; sizes are
// bounded by the file before anything is allocated.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/data/tokenizer.h"

namespace ogrom {

// Hugging Face tokenizer.json: model.type BPE (vocab, merges as "a b" or ["a", "b"]), pre_tokenizer ByteLevel, decoder
// ByteLevel, added_tokens. Everything else that would change ids is refused by name.
Tokenizer load_tokenizer_json(const std::string& path);
// encoder.json (or vocab.json) + vocab.bpe (or merges.txt). <|endoftext|> of the vocabulary is a special token.
Tokenizer load_vocab_and_merges(const std::string& vocab_path, const std::string& merges_path);
// The text of a tokenizer.json. `texts` by id; every id present.
std::string tokenizer_json(const std::vector<std::string>& texts, const std::vector<Tokenizer::Merge>& merges,
                           const std::vector<AddedToken>& added);

// GPT-2's printable names of bytes: 33..126, 161..172, 174..255 stand for themselves, the 68 others in ascending order
// are U+0100 .. U+0143.
std::string symbol_of_bytes(std::string_view bytes);
// nullopt where a character names no byte.
std::optional<std::string> bytes_of_symbol(std::string_view symbol);
// The 256 bytes in the order of their names: the ids that GPT-2's vocabulary gives them.
std::vector<unsigned char> bytes_by_symbol();

// Where a merge stands: line of a file, or index of tokenizer.json's list. Becomes text only when there is a fault.
struct MergePlace {
    enum class Form { line, index };
    const std::string& path;
    Form form;
    i64 number;
    [[nodiscard]] std::string text() const;
};

// Vocabulary being read: symbol -> id, checked.
class VocabBuilder {
public:
    explicit VocabBuilder(std::string path) : path_(std::move(path)) {}
    void add(const std::string& symbol, i64 id);
    // An added token: a new id, or the id that the vocabulary has for the same content.
    void add_token(const std::string& content, i64 id, AddedToken::Kind kind, const std::string& where);
    void add_merge(std::string_view left, std::string_view right, const MergePlace& where);
    void add_merge_line(std::string_view line, const MergePlace& where);  // "left right"
    [[nodiscard]] bool has(const std::string& symbol) const { return ids_.contains(symbol); }
    [[nodiscard]] std::int32_t id_of(const std::string& symbol) const { return ids_.at(symbol); }
    Tokenizer build();

private:
    [[nodiscard]] std::int32_t known(std::string_view symbol, const MergePlace& where) const;
    void place(const std::string& text, i64 id, const std::string& name);

    std::string path_;
    std::unordered_map<std::string, std::int32_t> ids_;  // by symbol
    std::vector<std::optional<std::string>> texts_;      // by id
    std::vector<Tokenizer::Merge> merges_;
    std::unordered_map<u64, i64> merged_;  // pair -> number of the place where it stood first
    std::vector<AddedToken> added_;
};

}  // namespace ogrom
