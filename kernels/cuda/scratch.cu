#include <map>
#include <mutex>
#include <utility>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

struct Range {
    void* start = nullptr;
    i64 bytes = 0;
};

struct Ranges {
    std::mutex changing;
    std::map<std::pair<int, void*>, Range> of_stream;
};

// Never destroyed: streams may outlive any order of static destruction.
Ranges& ranges() {
    static auto* all = new Ranges;
    return *all;
}

std::pair<int, void*> key_of(Stream stream) {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    return {device, stream.native};
}

}  // namespace

void* scratch(Stream stream, i64 bytes) {
    constexpr i64 grain = i64{2} << 20;
    const std::lock_guard<std::mutex> lock(ranges().changing);
    Range& range = ranges().of_stream[key_of(stream)];
    if (range.bytes >= bytes && range.start != nullptr) {
        return range.start;
    }
    if (range.start != nullptr) {
        check(cudaFreeAsync(std::exchange(range.start, nullptr), native(stream)), "cudaFreeAsync");
        range.bytes = 0;
    }
    const i64 taken = round_up(std::max<i64>(bytes, 1), grain);
    if (const cudaError_t status = cudaMallocAsync(&range.start, static_cast<std::size_t>(taken), native(stream));
        status != cudaSuccess) {
        range.start = nullptr;
        static_cast<void>(cudaGetLastError());
        fail(ExitCode::memory, "working memory of the kernels, " + std::to_string(taken) +
                                   " bytes on the device: " + cudaGetErrorString(status));
    }
    range.bytes = taken;
    return range.start;
}

void release_scratch(Stream stream) {
    const std::lock_guard<std::mutex> lock(ranges().changing);
    const auto found = ranges().of_stream.find(key_of(stream));
    if (found != ranges().of_stream.end()) {
        const Range range = found->second;
        ranges().of_stream.erase(found);
        if (range.start != nullptr) {
            check(cudaFreeAsync(range.start, native(stream)), "cudaFreeAsync");
        }
    }
}

const void* scratch_start(Stream stream) {
    const std::lock_guard<std::mutex> lock(ranges().changing);
    const auto found = ranges().of_stream.find(key_of(stream));
    return found == ranges().of_stream.end() ? nullptr : found->second.start;
}

i64 scratch_bytes() {
    const std::lock_guard<std::mutex> lock(ranges().changing);
    i64 bytes = 0;
    for (const auto& [key, range] : ranges().of_stream) {
        bytes += range.bytes;
    }
    return bytes;
}

}  // namespace ogrom::cuda
