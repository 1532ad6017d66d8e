// Text to ids and back, without loss: decode(encode(x)) = x for any bytes, valid UTF-8 or not.
//   byte   built in: id = byte, 256 = end of document
//   BPE    byte-level byte pair encoding (Sennrich et al. 2016, Radford et al. 2019): text is cut into words by GPT-2's
//          pattern (data/pretokenize.h), then in each word the neighbouring pair of lowest rank, the leftmost of
//          equals, is merged until no pair has a rank
// Files: a tokenizer.json of the Hugging Face form, or a folder with encoder.json + vocab.bpe, vocab.json + merges.txt,
// or tokenizer.json. What a tokenizer.json asks for and this program has not is refused by name at load.
// The text of a special token (<|endoftext|>) inside a document is plain text unless the caller says Specials::parse;
// added tokens that are not special are always taken whole.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

enum class Specials { as_text, parse };

class BpeModel;
struct AddedToken {
    std::string content;
    std::int32_t id = 0;
    enum class Kind { special, plain } kind = Kind::special;
};

class Tokenizer {
public:
    static Tokenizer byte_level();
    // "byte", or the path of a file or folder as above. Throws Error(data) naming file and line, key or array index.
    static Tokenizer load(const std::string& name);
    // From parts: text of each id (absent = a gap), merges in rank order as (left, right, result), added tokens.
    struct Merge {
        std::int32_t left, right, result;
    };
    static Tokenizer from_parts(std::vector<std::optional<std::string>> texts, const std::vector<Merge>& merges,
                                std::vector<AddedToken> added);

    [[nodiscard]] i64 vocab_size() const;  // largest id + 1
    [[nodiscard]] std::optional<std::int32_t> eod() const;
    // Content hash of what decides about ids: equal for the same tokenizer in another file form.
    [[nodiscard]] const std::string& identity() const;
    [[nodiscard]] std::vector<std::string> report() const;  // gaps and the like, lines for the log

    // One call without a cache; for much text use an Encoder.
    [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, Specials specials = Specials::as_text) const;
    // Throws Error(data) with position and id where an id has no text.
    [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const;
    [[nodiscard]] std::optional<std::string_view> text_of(std::int32_t id) const;  // absent: a gap or out of range

private:
    friend class Encoder;
    Tokenizer() = default;
    std::shared_ptr<const BpeModel> model_;  // immutable, shared by copies and encoders; null = byte level
};

// Encodes text after text; remembers words it has seen. One per thread.
class Encoder {
public:
    explicit Encoder(const Tokenizer& tokenizer);
    ~Encoder();
    Encoder(Encoder&& other) noexcept;
    // Appends the ids of `text` to `out`. Memory: about 25 bytes per byte of the longest word.
    void encode(std::string_view text, Specials specials, std::vector<std::int32_t>& out);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ogrom
