// A token set on disk: PREFIX.bin (ids), PREFIX.idx (lengths and documents, Megatron-LM's "MMIDIDX" version 1) and
// PREFIX.json (our own record: tokenizer, counts, hashes). Little endian throughout.
//   .bin   the ids of all sequences, uint16 or int32
//   .idx   9 bytes "MMIDIDX\0\0" | u64 version = 1 | u8 type (4 = int32, 8 = uint16) | u64 sequences | u64 entries of
//          the document table | int32 length[sequences], in ids | i64 pointer[sequences], in bytes of .bin |
//          i64 document[entries]: document d is sequences document[d] .. document[d + 1] - 1
//   .json  {"format": 1, "tokenizer": {"identity", "path", "vocab", "eod"}, "documents", "tokens", "type", ...}
// A set without .json (made by another program) opens; its tokenizer is then unknown.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/dtype.h"
#include "kernels/common/extents.h"

#include "src/data/mapped_file.h"

namespace ogrom {

inline constexpr int token_set_format = 1;
inline constexpr i64 token_index_header_bytes = 34;
inline constexpr std::uint8_t token_type_int32 = 4;
inline constexpr std::uint8_t token_type_uint16 = 8;

struct TokenSetRecord {
    std::string tokenizer;       // identity (Tokenizer::identity)
    std::string tokenizer_path;  // as it was given
    i64 vocab = 0;               // largest id of the tokenizer + 1
    i64 eod = -1;                // id that closes every document
    i64 documents = 0, tokens = 0;
    i64 empty_documents = 0;  // dropped
    i64 replaced = 0;         // invalid characters replaced by U+FFFD
    i64 skipped = 0;          // documents or lines left out as invalid
    std::string hash;         // of .bin, "xxh3-128:" + 32 hex digits
    std::string index_hash;   // of .idx
    std::string sample_hash;  // of pieces of .bin (token_sample_hash); empty in records of older programs
    i64 bytes = 0;            // of .bin
    i64 index_bytes = 0;      // of .idx
};

// How much of the contents is compared with the record when a set is opened.
enum class OpenCheck {
    sampled,  // the hash of .idx, and of pieces of .bin: milliseconds, and a file of another job does not pass
    counts    // none: verify() follows, which reads everything
};

class TokenSet {
public:
    // Maps and checks: sizes are bounded by the files before anything is allocated, every sequence lies inside .bin,
    // the document table is sorted and covers all sequences, the record's counts and (`check`) hashes agree, no job
    // was stopped while it replaced the files. Throws Error(data) with the path and the first bad entry.
    explicit TokenSet(const std::string& prefix, OpenCheck check = OpenCheck::sampled);

    [[nodiscard]] i64 documents() const { return documents_; }  // empty ones included
    [[nodiscard]] i64 tokens() const { return tokens_; }
    [[nodiscard]] i64 tokens_of(i64 document) const;
    // ids `first` .. `first + count - 1` of a document, count >= 0, inside it.
    void read(i64 document, i64 first, i64 count, std::int32_t* out) const;
    [[nodiscard]] Dtype dtype() const { return dtype_; }  // u16 | i32
    [[nodiscard]] const std::string& prefix() const { return prefix_; }
    [[nodiscard]] const std::optional<TokenSetRecord>& record() const { return record_; }
    // Content hash: of the record's hashes, or without a record of the index and both ends of .bin.
    [[nodiscard]] std::string id() const;
    // Reads everything: hashes against the record, every id against `vocab` (0 = the record's). Throws at the first
    // fault.
    void verify(i64 vocab) const;

private:
    void read_header();
    void check_sequences();
    void check_documents() const;
    void read_record();
    void compare_hashes() const;

    std::string prefix_;
    MappedFile index_, ids_;
    i64 sequences_ = 0, documents_ = 0, tokens_ = 0, table_entries_ = 0;
    Dtype dtype_ = Dtype::u16;
    std::optional<TokenSetRecord> record_;

    [[nodiscard]] i64 length(i64 sequence) const;
    [[nodiscard]] i64 pointer(i64 sequence) const;
    [[nodiscard]] i64 table(i64 entry) const;
};

// All of a file up to 1 MiB; of a larger one both ends and 64 pieces between them, so that it is cheap on a set of any
// size and still tells two sets of equal size apart.
std::string token_sample_hash(std::string_view ids);

// The message of a bad id (the same wherever it is found).
[[noreturn]] void fail_bad_id(const std::string& prefix, i64 document, i64 position, i64 id, i64 vocab);

}  // namespace ogrom
