#include "src/device/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <initializer_list>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/common/error.h"
#include "kernels/common/parallel.h"
#include "kernels/cuda/runtime.h"

#include "src/base/text.h"
#include "src/device/memory.h"

namespace ogrom {
namespace {

constexpr i64 host_alignment = 64;
constexpr i64 gpu_alignment = 256;

using Tiers = std::initializer_list<Tier>;

bool in(Tiers tiers, Tier tier) {
    return std::find(tiers.begin(), tiers.end(), tier) != tiers.end();
}

i64 bytes_of(const Ledger& ledger, Tiers tiers, i64 alignment) {
    i64 bytes = 0;
    for (const LedgerLine& line : ledger.lines()) {
        bytes += in(tiers, line.tier) ? round_up(line.bytes, alignment) : 0;
    }
    return bytes;
}

bool poisoned() {
#ifdef NDEBUG
    const char* wanted = std::getenv("OGROM_POISON");
    return wanted != nullptr && std::string(wanted) == "1";
#else
    return true;
#endif
}

std::string largest_line(const Ledger& ledger, Tiers tiers) {
    const LedgerLine* largest = nullptr;
    for (const LedgerLine& line : ledger.lines()) {
        if (in(tiers, line.tier) && (largest == nullptr || line.bytes > largest->bytes)) {
            largest = &line;
        }
    }
    return fmt::format("largest line: {} with {}", largest == nullptr ? "none" : largest->name,
                       human_bytes(largest == nullptr ? 0 : largest->bytes));
}

std::string host_message(const Ledger& ledger, Tiers tiers, i64 one, int node_ranks, i64 free_bytes) {
    return fmt::format(
        "does not fit in memory: requested {} for {} rank{} of this machine ({} each), free {}; {}; less is "
        "taken by a smaller train.micro_batch or train.sequence, train.recompute = \"full\", a higher parallel.zero "
        "over "
        "more data ranks, more parallel.tensor or parallel.pipeline ranks on further machines{}",
        human_bytes(one * node_ranks), node_ranks, node_ranks == 1 ? "" : "s", human_bytes(one),
        human_bytes(free_bytes), largest_line(ledger, tiers), node_ranks > 1 ? ", or fewer ranks on this machine" : "");
}

constexpr Tiers everything = {Tier::device, Tier::host, Tier::pageable};
constexpr Tiers beside_gpu = {Tier::host, Tier::pageable};

}  // namespace

i64 arena_bytes(const Ledger& ledger) {
    return bytes_of(ledger, everything, host_alignment);
}

void require_fit(const Ledger& ledger, int node_ranks, i64 free_bytes, const Device& device) {
    const Tiers tiers = device.is_gpu() ? beside_gpu : everything;
    const i64 one = bytes_of(ledger, tiers, host_alignment);
    if (one > free_bytes / std::max(1, node_ranks)) {
        fail(ExitCode::memory, host_message(ledger, tiers, one, node_ranks, free_bytes));
    }
    if (device.is_gpu()) {
        const i64 wanted = bytes_of(ledger, {Tier::device}, gpu_alignment);
        const i64 free_there = cuda::memory_info().free;
        require(wanted <= free_there, ExitCode::memory,
                fmt::format("does not fit in the memory of the GPU: requested {}, free {}; {}; a smaller "
                            "train.micro_batch, train.logits_rows, train.sequence or model, or train.recompute would "
                            "fit",
                            human_bytes(wanted), human_bytes(free_there), largest_line(ledger, {Tier::device})));
    }
}

Arena::Arena(const Ledger& ledger, const Device& device) {
    require_fit(ledger, 1, free_memory(), device);
    plan(ledger, device);
    try {
        for (Region& region : regions_) {
            if (region.bytes > 0) {
                allocate(region, ledger);
                touch(region);
            }
        }
    } catch (const Error&) {
        release();
        throw;
    }
}

Arena::~Arena() {
    release();
}

// Which line stands where.
void Arena::plan(const Ledger& ledger, const Device& device) {
    const auto region = [&](Kind kind, Tiers tiers, i64 alignment) {
        Region made{kind, nullptr, bytes_of(ledger, tiers, alignment), {}};
        i64 offset = 0;
        for (const LedgerLine& line : ledger.lines()) {
            if (in(tiers, line.tier)) {
                made.slots.push_back({line.name, offset, line.bytes, false});
                offset += round_up(line.bytes, alignment);
            }
        }
        regions_.push_back(std::move(made));
    };
    if (device.is_gpu()) {
        region(Kind::gpu, {Tier::device}, gpu_alignment);
        region(Kind::page_locked, {Tier::host}, host_alignment);
        region(Kind::lazy_mapping, {Tier::pageable}, host_alignment);
    } else {
        region(Kind::mapping, everything, host_alignment);
    }
}

void Arena::allocate(Region& region, const Ledger& ledger) {
    if (region.kind == Kind::gpu) {
        region.base = static_cast<std::byte*>(cuda::allocate_device(region.bytes));
        return;
    }
    if (region.kind == Kind::page_locked) {
        region.base = static_cast<std::byte*>(cuda::allocate_pinned(region.bytes));
        return;
    }
    void* base = mmap(nullptr, static_cast<std::size_t>(region.bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        const std::string reason = std::strerror(errno);
        fail(ExitCode::memory,
             host_message(ledger, everything, region.bytes, 1, free_memory()) + " (mmap: " + reason + ")");
    }
    // Large pages spare the products most of their address translation; only a hint.
    (void)madvise(base, static_cast<std::size_t>(region.bytes), MADV_HUGEPAGE);
    region.base = static_cast<std::byte*>(base);
}

void Arena::release() noexcept {
    for (Region& region : regions_) {
        if (region.base == nullptr) {
            continue;
        }
        if (region.kind == Kind::gpu) {
            cuda::free_device(region.base);
        } else if (region.kind == Kind::page_locked) {
            cuda::free_pinned(region.base);
        } else {
            munmap(region.base, static_cast<std::size_t>(region.bytes));
        }
        region.base = nullptr;
    }
}

// First touch: thread t of the OpenMP team writes the t-th part of every line, as the loops over that line do later.
void Arena::touch(const Region& region) {
    const int value = poisoned() ? 0xFF : 0;
    if (region.kind == Kind::gpu) {
        const Stream stream{Backend::cuda, nullptr};
        cuda::fill_bytes_async(stream, region.base, value, region.bytes);
        cuda::synchronize(stream);
        return;
    }
    if (region.kind == Kind::lazy_mapping) {
        return;
    }
    for (const Slot& slot : region.slots) {
        std::byte* const start = region.base + slot.offset;
        const i64 bytes = slot.bytes;
        const i64 page = sysconf(_SC_PAGESIZE);
        const i64 pages = ceil_div(bytes, page);
        parallel_pieces(pages, [&](i64 p) {
            std::memset(start + p * page, value, static_cast<std::size_t>(std::min(page, bytes - p * page)));
        });
    }
}

i64 Arena::bytes() const {
    i64 sum = 0;
    for (const Region& region : regions_) {
        sum += region.bytes;
    }
    return sum;
}

i64 Arena::device_bytes() const {
    return regions_.front().kind == Kind::gpu ? regions_.front().bytes : 0;
}

std::span<std::byte> Arena::take_bytes(const std::string& name) {
    for (Region& region : regions_) {
        for (Slot& slot : region.slots) {
            if (slot.name == name) {
                if (slot.taken) {
                    fail(ExitCode::memory, fmt::format("arena: line '{}' was taken twice", name));
                }
                slot.taken = true;
                return {region.base + slot.offset, static_cast<std::size_t>(slot.bytes)};
            }
        }
    }
    fail(ExitCode::memory, fmt::format("arena: the ledger has no line '{}'", name));
}

}  // namespace ogrom
