#include "src/device/select.h"

#include <algorithm>

namespace ogrom {

Device select_device(const std::string& wanted, int /* node_rank: picks the GPU */) {
    if (wanted == "cuda") {
        fail(ExitCode::usage, "run.device = \"cuda\": this binary was built without CUDA; use \"cpu\" or \"auto\"");
    }
    if (wanted != "auto" && wanted != "cpu") {
        fail(ExitCode::usage, "run.device = \"" + wanted + "\": expected auto, cpu or cuda");
    }
    return {Backend::cpu, 0, wanted == "cpu" ? "asked for" : "this binary was built without CUDA"};
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
