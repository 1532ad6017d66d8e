#include "src/pipeline/schedule.h"

#include <string>

#include "kernels/common/error.h"

namespace ogrom {

ActionList make_schedule(i64 stages, i64 stage, i64 micro_batches) {
    require(stages == 1, ExitCode::usage,
            "parallel.pipeline = " + std::to_string(stages) + ": pipeline parallelism is not built yet; set it to 1");
    OGROM_ASSERT(stage == 0 && micro_batches >= 1);
    ActionList actions;
    actions.reserve(static_cast<std::size_t>(2 * micro_batches));
    for (i64 m = 0; m < micro_batches; ++m) {
        actions.push_back({ActionKind::forward, m, 0, 0});
        actions.push_back({ActionKind::backward, m, 0, 0});
    }
    return actions;
}

}  // namespace ogrom
