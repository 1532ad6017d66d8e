// Plain operations on arena spans, wherever they stand, and the way between them and host code.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/common/extents.h"
#include "kernels/common/parallel.h"
#include "kernels/common/stream.h"

#include "src/device/arena.h"
#include "src/device/queue.h"

namespace ogrom {

// Bytes between the host and where the stream runs, or within either, in the order of the stream. Host memory that is
// not page-locked makes the call wait.
void copy_bytes(Stream stream, void* to, const void* from, i64 bytes);

// data := 0, every thread of the team its own part.
template <class T>
void set_zero(std::span<T> data) {
    constexpr i64 block = 1 << 16;
    const i64 n = static_cast<i64>(data.size());
    T* const start = data.data();
    parallel_pieces(ceil_div(n, block),
                    [&](i64 b) { std::fill(start + b * block, start + std::min(n, (b + 1) * block), T(0)); });
}
void set_zero_bytes(Stream stream, void* data, i64 bytes);
template <class T>
void set_zero(Stream stream, std::span<T> data) {
    if (stream.backend == Backend::cpu) {
        set_zero(data);
    } else {
        set_zero_bytes(stream, data.data(), static_cast<i64>(data.size_bytes()));
    }
}

// Arena memory of any size as host code sees it: on the CPU the memory itself in one piece, on a GPU pieces of bounded
// size that pass through a page-locked line of the ledger.
class HostWindow {
public:
    static void declare(Ledger& ledger, Backend backend);  // line "host.window", on a GPU alone
    HostWindow(Arena& arena, Stream stream);

    // visit(const T* host, i64 first, i64 n) for elements [first, first + n) of from[count], ascending.
    template <class T, class Visit>
    void read(const T* from, i64 count, const Visit& visit) const {
        if (stream_.backend == Backend::cpu) {
            visit(from, i64{0}, count);
            return;
        }
        T* const host = reinterpret_cast<T*>(pinned_.data());
        for (i64 first = 0, n = 0; first < count; first += n) {
            n = std::min(count - first, piece<T>());
            copy_bytes(stream_, host, from + first, n * static_cast<i64>(sizeof(T)));
            wait(stream_);
            visit(static_cast<const T*>(host), first, n);
        }
    }
    // make(T* host, i64 first, i64 n) writes elements [first, first + n) of to[count], ascending.
    template <class T, class Make>
    void write(T* to, i64 count, const Make& make) const {
        if (stream_.backend == Backend::cpu) {
            make(to, i64{0}, count);
            return;
        }
        T* const host = reinterpret_cast<T*>(pinned_.data());
        for (i64 first = 0, n = 0; first < count; first += n) {
            n = std::min(count - first, piece<T>());
            make(host, first, n);
            copy_bytes(stream_, to + first, host, n * static_cast<i64>(sizeof(T)));
            wait(stream_);
        }
    }

private:
    template <class T>
    [[nodiscard]] i64 piece() const {
        return static_cast<i64>(pinned_.size() / sizeof(T));
    }
    Stream stream_;
    std::span<std::byte> pinned_;
};

}  // namespace ogrom
