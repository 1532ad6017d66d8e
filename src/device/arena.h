// Memory of a run, cut once from the ledger: one mapping for the host, and on a GPU one allocation there and one of
// page-locked memory; touched at start; nothing of size is taken later.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "src/device/ledger.h"
#include "src/device/select.h"

namespace ogrom {

class Arena {
public:
    // On the CPU one mapping of the tiers device, host and pageable, 64-byte aligned lines, every page touched by the
    // threads that will use it. On a GPU (which must be the thread's device): device memory, 256-byte aligned lines;
    // page-locked memory for the tier host; a mapping that is touched when it is used for the tier pageable. Contents:
    // zero, or NaN in every element of a floating type when built for debugging or when OGROM_POISON=1 (pageable:
    // zero). Throws Error(memory) with requested, free and largest line before anything is taken; ranks that share a
    // machine ask require_fit for all of them before the first takes its own.
    explicit Arena(const Ledger& ledger, const Device& device = {});
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // The whole of a ledger line as elements of T; a line is taken once, and its bytes must be bytes of the line.
    template <class T>
    std::span<T> take(const std::string& name) {
        std::span<std::byte> raw = take_bytes(name);
        return {reinterpret_cast<T*>(raw.data()), raw.size() / sizeof(T)};
    }
    [[nodiscard]] i64 bytes() const;         // of all regions
    [[nodiscard]] i64 device_bytes() const;  // on the GPU; 0 on the CPU

private:
    enum class Kind { mapping, lazy_mapping, gpu, page_locked };
    struct Slot {
        std::string name;
        i64 offset = 0, bytes = 0;
        bool taken = false;
    };
    struct Region {
        Kind kind = Kind::mapping;
        std::byte* base = nullptr;
        i64 bytes = 0;
        std::vector<Slot> slots;
    };
    void plan(const Ledger& ledger, const Device& device);
    void allocate(Region& region, const Ledger& ledger);
    void release() noexcept;
    static void touch(const Region& region);
    std::span<std::byte> take_bytes(const std::string& name);
    std::vector<Region> regions_;
};

// What an arena of this ledger takes without a GPU: its lines rounded up to whole cache lines.
i64 arena_bytes(const Ledger& ledger);

// Throws Error(memory) when `node_ranks` ranks of this ledger need more than `free_bytes` of the machine's memory, or
// this rank more than its GPU has free.
void require_fit(const Ledger& ledger, int node_ranks, i64 free_bytes, const Device& device = {});

}  // namespace ogrom
