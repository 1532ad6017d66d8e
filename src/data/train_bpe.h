// Learning of a byte-level BPE (Sennrich, Haddow, Birch 2016, on bytes): the most frequent neighbouring pair of symbols
// within words becomes a new symbol, until the vocabulary is full. Of equally frequent pairs the one with the smaller
// left id, then the smaller right id, so that equal text gives equal rules on every machine.
// Ids: 0..255 the bytes in the order of their GPT-2 names, then the merges in order, last <|endoftext|>.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/data/tokenizer.h"

namespace ogrom {

// How often each word occurs. Memory grows with the number of different words. Words of more than 256 bytes are counted
// in pieces of 256.
class WordCounts {
public:
    void add(std::string_view text);
    // (word, count), sorted by word.
    [[nodiscard]] std::vector<std::pair<std::string, i64>> sorted() const;

private:
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
    };
    std::unordered_map<std::string, i64, Hash, std::equal_to<>> counts_;
};

struct TrainedBpe {
    std::vector<std::string> texts;  // by id
    std::vector<Tokenizer::Merge> merges;
    std::vector<AddedToken> added;
};

// Error(usage) outside 257 .. 2^24: before the text is read.
void check_vocab_size(i64 vocab);

// `vocab` >= 257 counts bytes and <|endoftext|>. Stops early, with fewer entries, when no pair occurs `min_count`
// times. `progress` (may be empty) is called with the number of merges made.
TrainedBpe train_bpe(const WordCounts& words, i64 vocab, i64 min_count, const std::function<void(i64)>& progress);

}  // namespace ogrom
