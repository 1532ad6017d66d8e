// The merge rules of a byte-level BPE and their application to one word. Immutable after construction.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/pair_table.h"
#include "src/data/tokenizer.h"

namespace ogrom {

// Ids are below 2^24: rank and position of a pending merge share one 64-bit word.
inline constexpr i64 bpe_id_limit = i64{1} << 24;

// Of the tokenizer that is built in; a file that gives every byte its own value as id, the end 256, and nothing else is
// the same one.
const std::string& byte_level_identity();

class BpeModel {
public:
    // Throws Error(data) where a byte has no id, two added tokens are equal, or an id is out of range.
    BpeModel(std::vector<std::optional<std::string>> texts, const std::vector<Tokenizer::Merge>& merges,
             std::vector<AddedToken> added);

    // Appends the ids of one word. Short words by scanning all pairs for each merge, long ones by a heap of pending
    // merges: O(n log n) time and about 25 bytes per byte, the same ids.
    void encode_word(std::string_view word, std::vector<std::int32_t>& out) const;
    void encode_word_by_scan(std::string_view word, std::vector<std::int32_t>& out) const;
    void encode_word_by_heap(std::string_view word, std::vector<std::int32_t>& out) const;

    struct Match {
        const AddedToken* token = nullptr;  // null: none up to the end
        i64 at = 0;
    };
    // First added token at or after `from`, the longest of those that start at the same place.
    [[nodiscard]] Match find_added(std::string_view text, i64 from, Specials specials) const;

    [[nodiscard]] const std::vector<std::optional<std::string>>& texts() const { return texts_; }
    [[nodiscard]] std::optional<std::int32_t> eod() const { return eod_; }
    [[nodiscard]] const std::string& identity() const { return identity_; }
    [[nodiscard]] i64 gaps() const { return gaps_; }

private:
    void check_added();
    [[nodiscard]] bool is_byte_level() const;  // without merges
    void set_identity(const std::vector<Tokenizer::Merge>& merges);

    std::vector<std::optional<std::string>> texts_;
    std::vector<AddedToken> added_;  // longest first
    std::array<std::int32_t, 256> byte_ids_{};
    std::array<bool, 256> added_starts_{};
    PairTable pairs_;
    std::optional<std::int32_t> eod_;
    std::string identity_;
    i64 gaps_ = 0;
};

}  // namespace ogrom
