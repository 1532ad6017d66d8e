// Flat hash of neighbouring pairs (left id, right id) -> rank and result of their merge. Open addressing, at most half
// full, made once.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

class PairTable {
public:
    static constexpr u32 no_rank = 0xFFFFFFFFU;
    struct Entry {
        u64 key = empty_key;
        u32 rank = no_rank;
        std::int32_t result = -1;
    };

    explicit PairTable(i64 pairs = 0)
        : slots_(std::bit_ceil(static_cast<std::size_t>(2 * pairs + 2))), mask_(slots_.size() - 1) {}

    // False where the pair is there already.
    bool insert(std::int32_t left, std::int32_t right, u32 rank, std::int32_t result) {
        Entry& entry = slots_[place(key_of(left, right))];
        if (entry.key != empty_key) {
            return false;
        }
        entry = {key_of(left, right), rank, result};
        return true;
    }
    // rank = no_rank where the pair does not merge.
    [[nodiscard]] const Entry& find(std::int32_t left, std::int32_t right) const {
        return slots_[place(key_of(left, right))];
    }

private:
    static constexpr u64 empty_key = ~u64{0};
    static u64 key_of(std::int32_t left, std::int32_t right) {
        return (u64{static_cast<u32>(left)} << 32) | static_cast<u32>(right);
    }
    [[nodiscard]] std::size_t place(u64 key) const {
        std::size_t at = (key * 0x9E3779B97F4A7C15ULL >> 20) & mask_;
        while (slots_[at].key != key && slots_[at].key != empty_key) {
            at = (at + 1) & mask_;
        }
        return at;
    }

    std::vector<Entry> slots_;
    std::size_t mask_;
};

}  // namespace ogrom
