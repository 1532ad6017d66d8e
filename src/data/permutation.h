// A shuffle of 0 .. size-1 as a function of (seed, epoch, use) alone: nothing is carried from one epoch to the next,
// so any position of any epoch can be asked for directly, and large sets need no table.
// Up to `table_limit` elements: Fisher-Yates. Above: a balanced Feistel network of 8 rounds over the next even number
// of bits, walked until the value falls inside (fewer than 4 steps on average); Black and Rogaway 2002, "Ciphers with
// arbitrary finite domains".
#pragma once
#include <array>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

class Permutation {
public:
    enum class Use { documents = 0, samples = 1 };
    static constexpr i64 table_limit = 4096;

    Permutation(i64 size, u64 seed, i64 epoch, Use use);
    [[nodiscard]] i64 operator()(i64 position) const;  // 0 <= position < size
    [[nodiscard]] i64 size() const { return size_; }

private:
    static constexpr int rounds = 8;
    i64 size_;
    int half_bits_ = 0;
    std::array<u64, rounds> keys_{};
    std::vector<std::uint16_t> table_;
};

}  // namespace ogrom
