#include "src/comm/staging.h"

#include <iterator>
#include <new>

#include "kernels/common/error.h"
#include "kernels/cuda/runtime.h"

namespace ogrom {

StagingMemory::StagingMemory(Backend backend, i64 bytes) : backend_(backend) {
    void* memory = backend == Backend::cuda
                       ? cuda::allocate_pinned(bytes)
                       : ::operator new(static_cast<std::size_t>(bytes), std::align_val_t(StagingRoom::alignment));
    bytes_ = {static_cast<std::byte*>(memory), static_cast<std::size_t>(bytes)};
}

StagingMemory::~StagingMemory() {
    if (backend_ == Backend::cuda) {
        cuda::free_pinned(bytes_.data());
    } else {
        ::operator delete(bytes_.data(), std::align_val_t(StagingRoom::alignment));
    }
}

StagingRoom::StagingRoom(std::span<std::byte> memory) : memory_(memory) {
    free_.emplace(0, capacity());
}

std::optional<std::span<std::byte>> StagingRoom::take(i64 bytes) {
    const i64 wanted = round_up(bytes, alignment);
    OGROM_ASSERT(wanted <= capacity());
    if (wanted == 0) {
        return memory_.first(0);
    }
    for (auto part = free_.begin(); part != free_.end(); ++part) {
        const auto [offset, room] = *part;
        if (room < wanted) {
            continue;
        }
        free_.erase(part);
        if (room > wanted) {
            free_.emplace(offset + wanted, room - wanted);
        }
        return memory_.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(wanted));
    }
    return std::nullopt;
}

void StagingRoom::give(std::span<std::byte> part) {
    if (part.empty()) {
        return;
    }
    auto place = free_.emplace(part.data() - memory_.data(), static_cast<i64>(part.size())).first;
    if (const auto next = std::next(place); next != free_.end() && place->first + place->second == next->first) {
        place->second += next->second;
        free_.erase(next);
    }
    if (place != free_.begin()) {
        if (const auto before = std::prev(place); before->first + before->second == place->first) {
            before->second += place->second;
            free_.erase(place);
        }
    }
}

}  // namespace ogrom
