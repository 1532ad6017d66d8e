// Comes in: micro-batches [B, T] of a step (host). Goes out: the same where the kernels run.
// Next: model/stage.cpp
#include "src/data/batch_upload.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "kernels/common/error.h"

namespace ogrom {
namespace {

constexpr const char* device_line = "batch";
constexpr const char* staging_line = "batch.staging";
constexpr const char* current_line = "batch.current";
constexpr i64 alignment = 256;  // of each field: kernels read 16 bytes at a time

// Bytes of the fields of one micro-batch: four of 4 bytes a token, the mask, the sample numbers.
i64 bytes_of(i64 B, i64 T) {
    constexpr i64 words = 4;
    return words * round_up(B * T * i64{4}, alignment) + round_up(B * T, alignment) + round_up(B * i64{8}, alignment);
}

// Lays fields one after another: into the staging memory, and gives the place that each will have on the device.
class Packer {
public:
    Packer(std::span<std::byte> staging, std::byte* device) : staging_(staging), device_(device) {}
    template <class T>
    const T* put(const T* from, i64 count) {
        if (from == nullptr) {
            return nullptr;
        }
        const i64 bytes = count * static_cast<i64>(sizeof(T));
        OGROM_ASSERT(used_ + bytes <= static_cast<i64>(staging_.size()));
        std::memcpy(staging_.data() + used_, from, static_cast<std::size_t>(bytes));
        const auto* const there = reinterpret_cast<const T*>(device_ + used_);
        used_ += round_up(bytes, alignment);
        return there;
    }
    [[nodiscard]] i64 used() const { return used_; }

private:
    std::span<std::byte> staging_;
    std::byte* device_;
    i64 used_ = 0;
};

// Where the fields of a micro-batch in device memory stand when its bytes from `first` on are copied to `to`.
class Mover {
public:
    Mover(const std::byte* first, const std::byte* to) : first_(first), to_(to) {}
    template <class T>
    void move(const T*& field, i64 count) {
        if (field != nullptr) {
            const i64 at = reinterpret_cast<const std::byte*>(field) - first_;
            end_ = std::max(end_, at + count * static_cast<i64>(sizeof(T)));
            field = reinterpret_cast<const T*>(to_ + at);
        }
    }
    [[nodiscard]] i64 bytes() const { return end_; }

private:
    const std::byte* first_;
    const std::byte* to_;
    i64 end_ = 0;
};

}  // namespace

void BatchUpload::declare(Ledger& ledger, i64 B, i64 T, i64 count, Backend backend) {
    if (backend == Backend::cuda) {
        const i64 bytes = count * bytes_of(B, T);
        const std::string formula = fmt::format("{} micro-batches x (B T 17 + 8 B)", count);
        ledger.add(device_line, Tier::device, bytes, formula);
        ledger.add(staging_line, Tier::host, bytes, formula);
        ledger.add(current_line, Tier::device, bytes_of(B, T), "the micro-batch of a recorded pass");
    }
}

BatchUpload::BatchUpload(Arena& arena, Stream stream) : stream_(stream) {
    if (stream.backend == Backend::cuda) {
        device_ = arena.take<std::byte>(device_line);
        staging_ = arena.take<std::byte>(staging_line);
        current_ = arena.take<std::byte>(current_line);
    }
}

std::vector<BatchView> BatchUpload::put(std::span<const Batch> batches) {
    std::vector<BatchView> views(batches.begin(), batches.end());
    if (stream_.backend == Backend::cpu) {
        return views;
    }
    Packer packer(staging_, device_.data());
    for (BatchView& view : views) {
        const i64 tokens = view.B * view.T;
        view.tokens = packer.put(view.tokens, tokens);
        view.targets = packer.put(view.targets, tokens);
        view.positions = packer.put(view.positions, tokens);
        view.segments = packer.put(view.segments, tokens);
        view.loss_mask = packer.put(view.loss_mask, tokens);
        view.sample = packer.put(view.sample, view.B);
    }
    copy_bytes(stream_, device_.data(), staging_.data(), packer.used());
    return views;
}

BatchView BatchUpload::make_current(const BatchView& batch) {
    const auto* const first = reinterpret_cast<const std::byte*>(batch.tokens);
    OGROM_ASSERT(first >= device_.data() && first < device_.data() + device_.size());
    BatchView there = batch;
    const i64 tokens = batch.B * batch.T;
    Mover mover(first, current_.data());
    mover.move(there.tokens, tokens);
    mover.move(there.targets, tokens);
    mover.move(there.positions, tokens);
    mover.move(there.segments, tokens);
    mover.move(there.loss_mask, tokens);
    mover.move(there.sample, batch.B);
    OGROM_ASSERT(mover.bytes() <= static_cast<i64>(current_.size()));
    copy_bytes(stream_, current_.data(), first, mover.bytes());
    return there;
}

}  // namespace ogrom
