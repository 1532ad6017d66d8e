// Memory of a run, cut once from the ledger. One mapping per tier, pages touched at start; nothing of size is taken
// later.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "src/device/ledger.h"

namespace ogrom {

class Arena {
public:
    // Takes total(device) + total(host) bytes (on the CPU backend both are host memory), 64-byte aligned lines, every
    // page touched by the threads that will use it. Contents: zero, or NaN in every element of fp32 and fp64 when built
    // for debugging or when OGROM_POISON=1. Throws Error(memory) with requested, free and largest line
    // before anything is taken; ranks that share a machine ask require_fit for all of them before the first takes its
    // own.
    explicit Arena(const Ledger& ledger);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // The whole of a ledger line as elements of T; a line is taken once, and its bytes must be bytes of the line.
    template <class T>
    std::span<T> take(const std::string& name) {
        std::span<std::byte> raw = take_bytes(name);
        return {reinterpret_cast<T*>(raw.data()), raw.size() / sizeof(T)};
    }
    [[nodiscard]] i64 bytes() const { return bytes_; }

private:
    void touch();
    std::span<std::byte> take_bytes(const std::string& name);
    struct Slot {
        std::string name;
        i64 offset = 0, bytes = 0;
        bool taken = false;
    };
    std::vector<Slot> slots_;
    std::byte* base_ = nullptr;
    i64 bytes_ = 0;
};

// What an arena of this ledger takes: its lines of device and host, rounded up to whole cache lines.
i64 arena_bytes(const Ledger& ledger);

// Throws Error(memory) when `node_ranks` ranks of this ledger need more than `free_bytes`; pure.
void require_fit(const Ledger& ledger, int node_ranks, i64 free_bytes);

}  // namespace ogrom
