#include "src/data/permutation.h"

#include <bit>
#include <numeric>
#include <utility>

#include "kernels/common/error.h"
#include "kernels/common/hash.h"
#include "kernels/common/rng.h"

namespace ogrom {

Permutation::Permutation(i64 size, u64 seed, i64 epoch, Use use) : size_(size) {
    OGROM_ASSERT(size >= 0 && epoch >= 0);
    // Stream = low half of the epoch; its high half and the use choose the range of counters.
    const auto stream = static_cast<u32>(static_cast<u64>(epoch));
    const u64 base = (static_cast<u64>(epoch) >> 32 << 32) | (static_cast<u64>(use) << 16);
    const auto draw = [&](i64 index) {
        return random_u64(seed, stream, rng_domain_data, base + static_cast<u64>(index));
    };
    if (size <= table_limit) {
        table_.resize(static_cast<std::size_t>(size));
        std::iota(table_.begin(), table_.end(), std::uint16_t{0});
        for (i64 i = size - 1; i > 0; --i) {
            std::swap(table_[i], table_[draw(i) % static_cast<u64>(i + 1)]);
        }
        return;
    }
    half_bits_ = (static_cast<int>(std::bit_width(static_cast<u64>(size - 1))) + 1) / 2;
    for (int round = 0; round < rounds; ++round) {
        keys_[round] = draw(round);
    }
}

i64 Permutation::operator()(i64 position) const {
    OGROM_ASSERT(position >= 0 && position < size_);
    if (!table_.empty()) {
        return table_[position];
    }
    const u64 mask = (u64{1} << half_bits_) - 1;
    auto value = static_cast<u64>(position);
    do {
        u64 left = value >> half_bits_;
        u64 right = value & mask;
        for (const u64 key : keys_) {
            left = std::exchange(right, left ^ (mix64(right ^ key) & mask));
        }
        value = (left << half_bits_) | right;
    } while (value >= static_cast<u64>(size_));
    return static_cast<i64>(value);
}

}  // namespace ogrom
