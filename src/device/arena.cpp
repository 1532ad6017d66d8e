#include "src/device/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/common/error.h"
#include "kernels/common/parallel.h"

#include "src/base/text.h"
#include "src/device/memory.h"

namespace ogrom {
namespace {

constexpr i64 line_alignment = 64;

bool cut_by_arena(Tier tier) {
    return tier == Tier::device || tier == Tier::host;
}

bool poisoned() {
#ifdef NDEBUG
    const char* wanted = std::getenv("OGROM_POISON");
    return wanted != nullptr && std::string(wanted) == "1";
#else
    return true;
#endif
}

std::string memory_message(const Ledger& ledger, int node_ranks, i64 free_bytes) {
    const LedgerLine* largest = nullptr;
    for (const LedgerLine& line : ledger.lines()) {
        if (cut_by_arena(line.tier) && (largest == nullptr || line.bytes > largest->bytes)) {
            largest = &line;
        }
    }
    const i64 one = arena_bytes(ledger);
    return fmt::format(
        "does not fit in memory: requested {} for {} rank{} of this machine ({} each), free {}; largest line: {} with "
        "{}; less is taken by a smaller train.micro_batch or train.sequence, train.recompute = \"full\", a higher "
        "parallel.zero over more data ranks, more parallel.tensor or parallel.pipeline ranks on further machines{}",
        human_bytes(one * node_ranks), node_ranks, node_ranks == 1 ? "" : "s", human_bytes(one),
        human_bytes(free_bytes), largest == nullptr ? "none" : largest->name,
        human_bytes(largest == nullptr ? 0 : largest->bytes), node_ranks > 1 ? ", or fewer ranks on this machine" : "");
}

}  // namespace

i64 arena_bytes(const Ledger& ledger) {
    i64 bytes = 0;
    for (const LedgerLine& line : ledger.lines()) {
        bytes += cut_by_arena(line.tier) ? round_up(line.bytes, line_alignment) : 0;
    }
    return bytes;
}

void require_fit(const Ledger& ledger, int node_ranks, i64 free_bytes) {
    if (arena_bytes(ledger) > free_bytes / std::max(1, node_ranks)) {
        fail(ExitCode::memory, memory_message(ledger, node_ranks, free_bytes));
    }
}

Arena::Arena(const Ledger& ledger) : bytes_(arena_bytes(ledger)) {
    require_fit(ledger, 1, free_memory());
    i64 offset = 0;
    for (const LedgerLine& line : ledger.lines()) {
        if (cut_by_arena(line.tier)) {
            slots_.push_back({line.name, offset, line.bytes, false});
            offset += round_up(line.bytes, line_alignment);
        }
    }
    if (bytes_ == 0) {
        return;
    }
    void* base =
        mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        const std::string reason = std::strerror(errno);
        fail(ExitCode::memory, memory_message(ledger, 1, free_memory()) + " (mmap: " + reason + ")");
    }
    // Large pages spare the products most of their address translation; only a hint.
    (void)madvise(base, static_cast<std::size_t>(bytes_), MADV_HUGEPAGE);
    base_ = static_cast<std::byte*>(base);
    touch();
}

Arena::~Arena() {
    if (base_ != nullptr) {
        munmap(base_, static_cast<std::size_t>(bytes_));
    }
}

// First touch: thread t of the OpenMP team writes the t-th part of every line, as the loops over that line do later.
void Arena::touch() {
    const int value = poisoned() ? 0xFF : 0;
    for (const Slot& slot : slots_) {
        std::byte* const start = base_ + slot.offset;
        const i64 bytes = slot.bytes;
        const i64 page = sysconf(_SC_PAGESIZE);
        const i64 pages = ceil_div(bytes, page);
        parallel_pieces(pages, [&](i64 p) {
            std::memset(start + p * page, value, static_cast<std::size_t>(std::min(page, bytes - p * page)));
        });
    }
}

std::span<std::byte> Arena::take_bytes(const std::string& name) {
    for (Slot& slot : slots_) {
        if (slot.name == name) {
            if (slot.taken) {
                fail(ExitCode::memory, fmt::format("arena: line '{}' was taken twice", name));
            }
            slot.taken = true;
            return {base_ + slot.offset, static_cast<std::size_t>(slot.bytes)};
        }
    }
    fail(ExitCode::memory, fmt::format("arena: the ledger has no line '{}'", name));
}

}  // namespace ogrom
