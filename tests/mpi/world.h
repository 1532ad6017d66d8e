// The session of an MPI test program, and a main that runs GoogleTest on every rank: rank 0 prints everything, the
// others their failures. Payloads name their origin (rank * 1000 + element); sentinels stand around every buffer.
#pragma once
#include <gtest/gtest.h>
#include <vector>

#include "src/comm/session.h"

namespace ogrom::test {

constexpr i64 chunk_bytes = 256;  // small enough that ordinary sizes are cut into several MPI calls

Session& session();

// `count` elements with a guard of sentinels on both sides.
template <class T>
class Guarded {
public:
    explicit Guarded(i64 count, T fill = T(-77))
        : count_(count), all_(static_cast<std::size_t>(count + 2 * guard), fill) {
        for (i64 i = 0; i < guard; ++i) {
            all_[static_cast<std::size_t>(i)] = sentinel;
            all_[static_cast<std::size_t>(count + guard + i)] = sentinel;
        }
    }
    T* data() { return all_.data() + guard; }
    T& operator[](i64 i) { return all_[static_cast<std::size_t>(i + guard)]; }
    std::vector<T> values() { return {data(), data() + count_}; }
    [[nodiscard]] bool intact() const {
        bool same = true;
        for (i64 i = 0; i < guard; ++i) {
            same = same && all_[static_cast<std::size_t>(i)] == sentinel &&
                   all_[static_cast<std::size_t>(count_ + guard + i)] == sentinel;
        }
        return same;
    }

private:
    static constexpr i64 guard = 16;
    static constexpr T sentinel = T(54321);
    i64 count_;
    std::vector<T> all_;
};

}  // namespace ogrom::test
