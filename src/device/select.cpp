#include "src/device/select.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/common/error.h"
#include "kernels/cuda/device.h"

namespace ogrom {

Device select_device(const std::string& wanted, int node_rank) {
    if (wanted != "auto" && wanted != "cpu" && wanted != "cuda") {
        fail(ExitCode::usage, fmt::format("run.device = \"{}\": expected auto, cpu or cuda", wanted));
    }
    if (wanted == "cpu") {
        return {.reason = "asked for"};
    }
    const cuda::Devices found = cuda::list_devices();
    if (found.devices.empty()) {
        require(wanted == "auto", ExitCode::usage,
                fmt::format("run.device = \"cuda\": {}; use \"cpu\" or \"auto\"", found.reason));
        return {.reason = found.reason};
    }
    const auto count = static_cast<int>(found.devices.size());
    const cuda::Device& gpu = found.devices[static_cast<std::size_t>(node_rank % count)];
    return {.backend = Backend::cuda,
            .index = gpu.index,
            .reason = fmt::format("{}, number {} of {}", gpu.name, gpu.index, count),
            .name = gpu.name,
            .uuid = gpu.uuid,
            .capability = 10 * gpu.major + gpu.minor,
            .pci = gpu.pci,
            .memory_bytes = gpu.memory_bytes,
            .cuda_version = found.driver_version};
}

int choose_threads(i64 wanted, const std::string& mask, const std::vector<std::string>& node_masks) {
    if (wanted > 0) {
        return static_cast<int>(wanted);
    }
    std::string any(mask.size(), '0');
    for (const std::string& other : node_masks) {
        for (std::size_t core = 0; core < std::min(any.size(), other.size()); ++core) {
            any[core] = other[core] == '1' ? '1' : any[core];
        }
    }
    const auto cores = [](const std::string& text) { return std::count(text.begin(), text.end(), '1'); };
    const i64 ranks = std::max<i64>(1, static_cast<i64>(node_masks.size()));
    return static_cast<int>(std::max<i64>(1, std::min<i64>(cores(mask), cores(any) / ranks)));
}

}  // namespace ogrom
