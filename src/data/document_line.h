// The documents of one part of a token set laid end to end in the order of an epoch, and the tokens of any stretch of
// that line. 8 bytes of memory per document for each of two epochs' orders (one where the order is the file's), 8 more
// where only some documents belong to the part; all of it taken at construction.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/data/sampler.h"
#include "src/data/token_set.h"

namespace ogrom {

// Where the part begins and ends: all documents, or those that a hash of their number puts on one side.
struct PartRule {
    enum class Keep { all, held_out, rest } keep = Keep::all;
    double fraction = 0;  // of documents held out
};

enum class LineOrder { file, shuffled };

class DocumentLine {
public:
    DocumentLine(const std::string& prefix, PartRule rule, LineOrder order, u64 seed);

    [[nodiscard]] const TokenSet& set() const { return set_; }
    [[nodiscard]] i64 documents() const { return count_; }  // of the part, empty ones left out
    [[nodiscard]] i64 empty() const { return empty_; }      // of the part, left out
    [[nodiscard]] i64 tokens() const { return tokens_; }
    [[nodiscard]] i64 index_bytes() const;
    // Tokens `first` .. `first + count - 1` of the epoch's line. Any thread. Throws Error(data) for an id that is
    // negative or >= vocab.
    void read(i64 epoch, i64 first, i64 count, i64 vocab, std::int32_t* out) const;

private:
    struct EpochOrder;
    [[nodiscard]] i64 document_at(i64 index) const { return chosen_.empty() ? index : chosen_[index]; }
    [[nodiscard]] std::shared_ptr<const EpochOrder> order_of(i64 epoch) const;
    void read_checked(i64 document, i64 first, i64 count, i64 vocab, std::int32_t* out) const;

    TokenSet set_;
    LineOrder order_;
    u64 seed_;
    i64 count_ = 0, empty_ = 0, tokens_ = 0;
    std::vector<i64> chosen_;  // documents of the part in file order; empty when that is all of them
    mutable std::mutex lock_;
    mutable std::shared_ptr<const EpochOrder> recent_[2];  // the epoch in use and the one before
};

}  // namespace ogrom
