// Ids of words already seen. One cache line per word: words of up to 24 bytes and 9 ids; two places per hash, the older
// one gives way. A fixed 4 MB, no allocation while encoding.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

struct WordKey {
    static constexpr i64 max_bytes = 24;
    u64 part[3];
    u64 hash;
};

class WordCache {
public:
    static constexpr std::size_t max_ids = 9;
    struct alignas(64) Entry {
        u64 part[3] = {0, 0, 0};
        std::uint8_t bytes = 0;  // 0 = free (no word is empty)
        std::uint8_t count = 0;
        std::array<std::int32_t, max_ids> ids{};
    };
    static_assert(sizeof(Entry) == 64);

    WordCache() : entries_(2 * sets) {}

    // `readable` is the end of the buffer that holds the word: whole words of memory are read up to there.
    static WordKey key_of(std::string_view word, const char* readable) {
        WordKey key{{0, 0, 0}, 0};
        const auto bytes = static_cast<i64>(word.size());
        if (readable - word.data() >= WordKey::max_bytes) [[likely]] {
            std::memcpy(key.part, word.data(), sizeof key.part);
            for (i64 i = 0; i < 3; ++i) {
                const i64 left = bytes - 8 * i;
                key.part[i] = left >= 8 ? key.part[i] : left <= 0 ? 0 : key.part[i] & ((u64{1} << (8 * left)) - 1);
            }
        } else {
            std::memcpy(key.part, word.data(), word.size());
        }
        key.hash = (key.part[0] + static_cast<u64>(bytes)) * 0x9E3779B97F4A7C15ULL;
        if (bytes > 8) {
            key.hash = ((key.hash >> 29) ^ key.hash ^ key.part[1]) * 0xBF58476D1CE4E5B9ULL;
            key.hash = ((key.hash >> 29) ^ key.hash ^ key.part[2]) * 0x94D049BB133111EBULL;
        }
        key.hash ^= key.hash >> 32;
        return key;
    }

    [[nodiscard]] const Entry* find(const WordKey& key, std::size_t bytes) const {
        const Entry* pair = &entries_[2 * (key.hash & (sets - 1))];
        if (same(pair[0], key, bytes)) [[likely]] {
            return &pair[0];
        }
        return same(pair[1], key, bytes) ? &pair[1] : nullptr;
    }

    // Keeps words of few ids only; the others are merged anew each time.
    void insert(const WordKey& key, std::size_t bytes, const std::int32_t* ids, std::size_t count) {
        if (count > max_ids) {
            return;
        }
        Entry* pair = &entries_[2 * (key.hash & (sets - 1))];
        pair[1] = pair[0];
        std::memcpy(pair[0].part, key.part, sizeof key.part);
        pair[0].bytes = static_cast<std::uint8_t>(bytes);
        pair[0].count = static_cast<std::uint8_t>(count);
        std::memcpy(pair[0].ids.data(), ids, count * sizeof *ids);
    }

private:
    static constexpr std::size_t sets = 1 << 15;
    static bool same(const Entry& entry, const WordKey& key, std::size_t bytes) {
        return entry.bytes == bytes && entry.part[0] == key.part[0] && entry.part[1] == key.part[1] &&
               entry.part[2] == key.part[2];
    }
    std::vector<Entry> entries_;
};

}  // namespace ogrom
