#include "src/data/bpe.h"

#include <algorithm>
#include <fmt/core.h>
#include <functional>
#include <queue>
#include <unordered_set>

#include "kernels/common/error.h"

#include "src/data/content_hash.h"

namespace ogrom {

namespace {

constexpr std::string_view end_of_text = "<|endoftext|>";
constexpr std::size_t scan_limit = 32;  // longest word for which scanning beats the heap

// A long word as a line of tokens. The first cell of a token holds its id and length, its last cell the length again
// (marked, when that is another cell), so that both neighbours are found without links; cells between hold 0.
class Line {
public:
    static constexpr i64 max_bytes = 0x7FFFFFFF;
    Line(std::string_view word, const std::array<std::int32_t, 256>& byte_ids)
        : ids_(word.size()), lengths_(word.size(), 1) {
        for (std::size_t i = 0; i < word.size(); ++i) {
            ids_[i] = byte_ids[static_cast<unsigned char>(word[i])];
        }
    }
    [[nodiscard]] i64 size() const { return static_cast<i64>(ids_.size()); }
    [[nodiscard]] bool starts(i64 cell) const { return lengths_[cell] != 0 && (lengths_[cell] & last_mark) == 0; }
    [[nodiscard]] std::int32_t id(i64 start) const { return ids_[start]; }
    [[nodiscard]] i64 next(i64 start) const { return start + lengths_[start]; }
    [[nodiscard]] i64 before(i64 start) const { return start - (lengths_[start - 1] & ~last_mark); }
    // The token at `start` and the one after it become `result`.
    void join(i64 start, std::int32_t result) {
        const i64 right = next(start);
        const u32 length = lengths_[start] + lengths_[right];
        lengths_[right - 1] = lengths_[right] = 0;
        lengths_[start] = length;
        lengths_[start + length - 1] = length | last_mark;
        ids_[start] = result;
    }

private:
    static constexpr u32 last_mark = 0x80000000U;
    std::vector<std::int32_t> ids_;
    std::vector<u32> lengths_;
};

}  // namespace

BpeModel::BpeModel(std::vector<std::optional<std::string>> texts, const std::vector<Tokenizer::Merge>& merges,
                   std::vector<AddedToken> added)
    : texts_(std::move(texts)), added_(std::move(added)), pairs_(static_cast<i64>(merges.size())) {
    require(static_cast<i64>(texts_.size()) <= bpe_id_limit && static_cast<i64>(merges.size()) < bpe_id_limit,
            ExitCode::data, "tokenizer: ids and merges must number below 16777216");
    check_added();
    byte_ids_.fill(-1);
    for (std::size_t id = 0; id < texts_.size(); ++id) {
        if (!texts_[id]) {
            ++gaps_;
            continue;
        }
        if (texts_[id]->size() == 1) {
            byte_ids_[static_cast<unsigned char>(texts_[id]->front())] = static_cast<std::int32_t>(id);
        }
        if (*texts_[id] == end_of_text) {
            eod_ = static_cast<std::int32_t>(id);
        }
    }
    for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
        require(byte_ids_[byte] >= 0, ExitCode::data,
                fmt::format("tokenizer: byte 0x{:02X} has no id; a byte-level tokenizer has one for each of the 256",
                            byte));
    }
    u32 rank = 0;
    for (const auto& merge : merges) {
        pairs_.insert(merge.left, merge.right, rank++, merge.result);
    }
    set_identity(merges);
}

void BpeModel::check_added() {
    std::unordered_set<std::string_view> seen;
    for (const auto& token : added_) {
        require(!token.content.empty(), ExitCode::data, fmt::format("tokenizer: added token {} is empty", token.id));
        require(token.id >= 0 && token.id < static_cast<std::int32_t>(texts_.size()), ExitCode::data,
                fmt::format("tokenizer: added token '{}': id {} is out of range", token.content, token.id));
        require(seen.insert(token.content).second, ExitCode::data,
                fmt::format("tokenizer: added token '{}' stands twice", token.content));
        added_starts_[static_cast<unsigned char>(token.content.front())] = true;
    }
    std::stable_sort(added_.begin(), added_.end(),
                     [](const auto& a, const auto& b) { return a.content.size() > b.content.size(); });
}

const std::string& byte_level_identity() {
    static const std::string identity = content_hash("byte level: id = byte, 256 = end of document, 1");
    return identity;
}

bool BpeModel::is_byte_level() const {
    constexpr std::int32_t bytes = 256;
    for (std::int32_t byte = 0; byte < bytes; ++byte) {
        if (byte_ids_[static_cast<std::size_t>(byte)] != byte) {
            return false;
        }
    }
    return texts_.size() == bytes + 1 && eod_ == bytes &&
           std::all_of(added_.begin(), added_.end(), [](const AddedToken& token) {
               return token.id == bytes && token.kind == AddedToken::Kind::special;
           });
}

void BpeModel::set_identity(const std::vector<Tokenizer::Merge>& merges) {
    if (merges.empty() && is_byte_level()) {
        identity_ = byte_level_identity();
        return;
    }
    ContentHasher hasher;
    const auto put = [&](i64 number) { hasher.add({reinterpret_cast<const char*>(&number), sizeof number}); };
    hasher.add("byte-level BPE, GPT-2 words, 1");
    for (const auto& text : texts_) {
        put(text ? static_cast<i64>(text->size()) : -1);
        hasher.add(text ? *text : std::string());
    }
    for (const auto& merge : merges) {
        put(merge.left);
        put(merge.right);
        put(merge.result);
    }
    auto sorted = added_;
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    for (const auto& token : sorted) {
        put(token.id);
        put(token.kind == AddedToken::Kind::special ? 1 : 0);
    }
    identity_ = hasher.value();
}

void BpeModel::encode_word(std::string_view word, std::vector<std::int32_t>& out) const {
    if (word.size() <= scan_limit) {
        encode_word_by_scan(word, out);
    } else {
        encode_word_by_heap(word, out);
    }
}

void BpeModel::encode_word_by_scan(std::string_view word, std::vector<std::int32_t>& out) const {
    const std::size_t begin = out.size();
    for (const char byte : word) {
        out.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    }
    while (out.size() - begin > 1) {
        std::size_t best = 0;
        const PairTable::Entry* merge = nullptr;
        for (std::size_t i = begin; i + 1 < out.size(); ++i) {
            const auto& entry = pairs_.find(out[i], out[i + 1]);
            if (entry.rank != PairTable::no_rank && (merge == nullptr || entry.rank < merge->rank)) {
                merge = &entry;
                best = i;
            }
        }
        if (merge == nullptr) {
            return;
        }
        out[best] = merge->result;
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
}

void BpeModel::encode_word_by_heap(std::string_view word, std::vector<std::int32_t>& out) const {
    require(static_cast<i64>(word.size()) <= Line::max_bytes, ExitCode::data,
            fmt::format("a word of {} bytes; at most {} are encoded", word.size(), Line::max_bytes));
    constexpr int position_bits = 40;
    Line line(word, byte_ids_);
    std::vector<u64> pending;
    const auto rank_at = [&](i64 start) {
        const i64 right = line.next(start);
        return right < line.size() ? pairs_.find(line.id(start), line.id(right)).rank : PairTable::no_rank;
    };
    const auto pack = [](u32 rank, i64 start) { return (u64{rank} << position_bits) | static_cast<u64>(start); };
    for (i64 i = 0; i < line.size(); ++i) {
        if (const u32 rank = rank_at(i); rank != PairTable::no_rank) {
            pending.push_back(pack(rank, i));
        }
    }
    std::priority_queue<u64, std::vector<u64>, std::greater<>> heap(std::greater<>(), std::move(pending));
    while (!heap.empty()) {
        const u64 top = heap.top();
        heap.pop();
        const auto start = static_cast<i64>(top & ((u64{1} << position_bits) - 1));
        // A pair has one rank, so the same rank at the same place is the same pair; anything else is out of date.
        if (!line.starts(start) || rank_at(start) != static_cast<u32>(top >> position_bits)) {
            continue;
        }
        line.join(start, pairs_.find(line.id(start), line.id(line.next(start))).result);
        if (const u32 rank = rank_at(start); rank != PairTable::no_rank) {
            heap.push(pack(rank, start));
        }
        if (start > 0) {
            const i64 left = line.before(start);
            if (const u32 rank = rank_at(left); rank != PairTable::no_rank) {
                heap.push(pack(rank, left));
            }
        }
    }
    for (i64 i = 0; i < line.size(); i = line.next(i)) {
        out.push_back(line.id(i));
    }
}

BpeModel::Match BpeModel::find_added(std::string_view text, i64 from, Specials specials) const {
    if (added_.empty()) {
        return {};
    }
    const auto size = static_cast<i64>(text.size());
    for (i64 at = from; at < size; ++at) {
        if (!added_starts_[static_cast<unsigned char>(text[at])]) {
            continue;
        }
        for (const auto& token : added_) {
            const bool active = specials == Specials::parse || token.kind == AddedToken::Kind::plain;
            if (active && text.substr(static_cast<std::size_t>(at)).starts_with(token.content)) {
                return {&token, at};
            }
        }
    }
    return {};
}

}  // namespace ogrom
