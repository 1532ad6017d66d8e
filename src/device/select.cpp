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

int choose_threads(long wanted, int usable_cores, int node_cores, int node_ranks) {
    if (wanted > 0) {
        return static_cast<int>(wanted);
    }
    const bool bound = usable_cores < node_cores;
    return std::max(1, bound ? usable_cores : usable_cores / std::max(1, node_ranks));
}

}  // namespace ogrom
