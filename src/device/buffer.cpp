#include "src/device/buffer.h"

#include <cstring>

#include "kernels/cuda/runtime.h"

namespace ogrom {
namespace {

constexpr const char* window_line = "host.window";
constexpr i64 window_bytes = i64{32} << 20;  // long enough for the full rate of the bus

}  // namespace

void copy_bytes(Stream stream, void* to, const void* from, i64 bytes) {
    if (stream.backend == Backend::cuda) {
        cuda::copy_async(stream, to, from, bytes);
    } else if (bytes > 0 && to != from) {
        std::memcpy(to, from, static_cast<std::size_t>(bytes));
    }
}

void set_zero_bytes(Stream stream, void* data, i64 bytes) {
    if (stream.backend == Backend::cuda) {
        cuda::fill_bytes_async(stream, data, 0, bytes);
    } else {
        set_zero(std::span(static_cast<std::byte*>(data), static_cast<std::size_t>(bytes)));
    }
}

void HostWindow::declare(Ledger& ledger, Backend backend) {
    if (backend == Backend::cuda) {
        ledger.add(window_line, Tier::host, window_bytes, "pieces of state on their way to and from the device");
    }
}

HostWindow::HostWindow(Arena& arena, Stream stream) : stream_(stream) {
    if (stream.backend == Backend::cuda) {
        pinned_ = arena.take<std::byte>(window_line);
    }
}

}  // namespace ogrom
