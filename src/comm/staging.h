// Host memory through which device memory travels: page-locked where the stream is a GPU's. Handed out in parts.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <span>

#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom {

class StagingMemory {
public:
    StagingMemory(Backend backend, i64 bytes);
    ~StagingMemory();
    StagingMemory(const StagingMemory&) = delete;
    StagingMemory& operator=(const StagingMemory&) = delete;
    [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

private:
    Backend backend_;
    std::span<std::byte> bytes_;
};

// Parts of it, first fit, 64-byte aligned.
class StagingRoom {
public:
    static constexpr i64 alignment = 64;
    explicit StagingRoom(std::span<std::byte> memory);
    [[nodiscard]] i64 capacity() const { return static_cast<i64>(memory_.size()); }
    // Nothing while too much is handed out; more than the capacity breaks a promise. 0 bytes always fit.
    std::optional<std::span<std::byte>> take(i64 bytes);
    void give(std::span<std::byte> part);

private:
    std::span<std::byte> memory_;
    std::map<i64, i64> free_;  // offset -> bytes; neighbours are joined
};

}  // namespace ogrom
