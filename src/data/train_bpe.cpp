#include "src/data/train_bpe.h"

#include <algorithm>
#include <fmt/core.h>
#include <queue>

#include "kernels/common/error.h"

#include "src/data/pretokenize.h"
#include "src/data/tokenizer_file.h"

namespace ogrom {

namespace {

constexpr std::size_t piece_bytes = 256;
constexpr i64 smallest_vocab = 257;

u64 pair_key(std::int32_t left, std::int32_t right) {
    return (u64{static_cast<u32>(left)} << 32) | static_cast<u32>(right);
}

struct Word {
    std::vector<std::int32_t> symbols;
    i64 count;
};
struct Pair {
    i64 count = 0;
    std::vector<u32> words;  // that hold the pair, or held it once; may repeat
};
struct Candidate {
    i64 count;
    u64 key;
    bool operator<(const Candidate& other) const {  // the largest is taken first
        return count != other.count ? count < other.count : key > other.key;
    }
};

class Trainer {
public:
    explicit Trainer(const WordCounts& words);
    // The pair to merge next; false when none occurs min_count times.
    bool best(i64 min_count, Candidate& found);
    void merge(u64 key, std::int32_t result);

private:
    void count_pairs(u32 word, i64 factor);
    static bool holds(const Word& word, std::int32_t left, std::int32_t right);
    static void rewrite(Word& word, std::int32_t left, std::int32_t right, std::int32_t result);

    std::vector<Word> words_;
    std::unordered_map<u64, Pair> pairs_;
    std::priority_queue<Candidate> queue_;
    std::vector<u64> grown_;  // pairs that the current merge made or made more frequent
};

Trainer::Trainer(const WordCounts& words) {
    std::int32_t id_of[256];
    const auto order = bytes_by_symbol();
    for (std::size_t i = 0; i < order.size(); ++i) {
        id_of[order[i]] = static_cast<std::int32_t>(i);
    }
    for (const auto& [text, count] : words.sorted()) {
        Word word{{}, count};
        for (const char byte : text) {
            word.symbols.push_back(id_of[static_cast<unsigned char>(byte)]);
        }
        words_.push_back(std::move(word));
        count_pairs(static_cast<u32>(words_.size() - 1), 1);
    }
    require(words_.size() < 0xFFFFFFFFU, ExitCode::data, "more than 4294967294 different words to learn from");
    for (const auto& [key, pair] : pairs_) {
        queue_.push({pair.count, key});
    }
    grown_.clear();
}

// Adds factor x the word's count to each of its pairs.
void Trainer::count_pairs(u32 index, i64 factor) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.symbols.size(); ++i) {
        const u64 key = pair_key(word.symbols[i], word.symbols[i + 1]);
        Pair& pair = pairs_[key];
        pair.count += factor * word.count;
        if (factor > 0) {
            grown_.push_back(key);
            if (pair.words.empty() || pair.words.back() != index) {
                pair.words.push_back(index);
            }
        }
    }
}

bool Trainer::holds(const Word& word, std::int32_t left, std::int32_t right) {
    const auto& symbols = word.symbols;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        if (symbols[i] == left && symbols[i + 1] == right) {
            return true;
        }
    }
    return false;
}

void Trainer::rewrite(Word& word, std::int32_t left, std::int32_t right, std::int32_t result) {
    auto& symbols = word.symbols;
    std::size_t to = 0;
    for (std::size_t from = 0; from < symbols.size(); ++from) {
        const bool joins = symbols[from] == left && from + 1 < symbols.size() && symbols[from + 1] == right;
        symbols[to++] = joins ? result : symbols[from];
        from += joins ? 1 : 0;
    }
    symbols.resize(to);
}

bool Trainer::best(i64 min_count, Candidate& found) {
    while (!queue_.empty()) {
        const Candidate top = queue_.top();
        queue_.pop();
        const auto pair = pairs_.find(top.key);
        const i64 now = pair == pairs_.end() ? 0 : pair->second.count;
        if (now == top.count) {
            found = top;
            return now >= min_count;
        }
        // Counts rise only in merge(), which pushes the pair anew; a fall is noticed here.
        if (now > 0 && now < top.count) {
            queue_.push({now, top.key});
        }
    }
    return false;
}

void Trainer::merge(u64 key, std::int32_t result) {
    const auto left = static_cast<std::int32_t>(key >> 32);
    const auto right = static_cast<std::int32_t>(key & 0xFFFFFFFFU);
    std::vector<u32> holders = std::move(pairs_[key].words);
    std::sort(holders.begin(), holders.end());
    holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
    grown_.clear();
    for (const u32 index : holders) {
        Word& word = words_[index];
        if (!holds(word, left, right)) {  // the pair had left this word before
            continue;
        }
        count_pairs(index, -1);
        rewrite(word, left, right, result);
        count_pairs(index, 1);
    }
    pairs_.erase(key);
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const u64 pair : grown_) {
        // Pairs without `result` have at most their old count, which still stands in the queue.
        if (static_cast<std::int32_t>(pair >> 32) == result ||
            static_cast<std::int32_t>(pair & 0xFFFFFFFFU) == result) {
            queue_.push({pairs_[pair].count, pair});
        }
    }
}

}  // namespace

void WordCounts::add(std::string_view text) {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end) {
        const char* const stop = word_end(at, end);
        for (; at < stop; at += std::min<std::ptrdiff_t>(stop - at, piece_bytes)) {
            const std::string_view word(at, std::min<std::size_t>(static_cast<std::size_t>(stop - at), piece_bytes));
            if (const auto found = counts_.find(word); found != counts_.end()) {
                ++found->second;
            } else {
                counts_.emplace(word, 1);
            }
        }
    }
}

std::vector<std::pair<std::string, i64>> WordCounts::sorted() const {
    std::vector<std::pair<std::string, i64>> words(counts_.begin(), counts_.end());
    std::sort(words.begin(), words.end());
    return words;
}

void check_vocab_size(i64 vocab) {
    require(vocab >= smallest_vocab && vocab <= (i64{1} << 24), ExitCode::usage,
            fmt::format("a vocabulary of {} entries; at least 257 (256 bytes and <|endoftext|>) and at most 16777216",
                        vocab));
}

TrainedBpe train_bpe(const WordCounts& words, i64 vocab, i64 min_count, const std::function<void(i64)>& progress) {
    check_vocab_size(vocab);
    TrainedBpe trained;
    for (const unsigned char byte : bytes_by_symbol()) {
        trained.texts.emplace_back(1, static_cast<char>(byte));
    }
    Trainer trainer(words);
    std::unordered_map<std::string, std::int32_t> id_of;  // one text can arise from two pairs; it keeps one id
    Candidate next{};
    while (static_cast<i64>(trained.texts.size()) + 1 < vocab && trainer.best(min_count, next)) {
        const auto left = static_cast<std::int32_t>(next.key >> 32);
        const auto right = static_cast<std::int32_t>(next.key & 0xFFFFFFFFU);
        const auto [known, fresh] =
            id_of.emplace(trained.texts[left] + trained.texts[right], static_cast<std::int32_t>(trained.texts.size()));
        const std::int32_t result = known->second;
        trained.merges.push_back({left, right, result});
        if (fresh) {
            trained.texts.push_back(known->first);
        }
        trainer.merge(next.key, result);
        if (progress) {
            progress(static_cast<i64>(trained.merges.size()));
        }
    }
    trained.added.push_back(
        {"<|endoftext|>", static_cast<std::int32_t>(trained.texts.size()), AddedToken::Kind::special});
    trained.texts.emplace_back("<|endoftext|>");
    return trained;
}

}  // namespace ogrom
