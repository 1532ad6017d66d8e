// ogrom convert --to ogrom. Comes in: a checkpoint. Goes out: the same state in other parts. Next:
// io/checkpoint_rewrite.cpp
#include <fmt/format.h>

#include "src/base/error.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/commands/convert.h"
#include "src/io/checkpoint_rewrite.h"

namespace ogrom {

int convert_to_ogrom(const ConvertOptions& options) {
    constexpr i64 most_writers = 99'999;  // part-NNNNN.h5
    require(options.writers >= 1 && options.writers <= most_writers, ExitCode::usage,
            fmt::format("--writers {} is out of range: 1 to {}", options.writers, most_writers));
    const RewriteReport report = rewrite_checkpoint(options.source, options.out, static_cast<int>(options.writers),
                                                    options.weights_only ? Kept::weights : Kept::everything);
    log_info("{}: step {}, {} values in {} groups of state, {} files of {} together; equal to the source bit for bit",
             options.out, report.step, report.elements, report.groups, report.files, human_bytes(report.bytes));
    return static_cast<int>(ExitCode::done);
}

}  // namespace ogrom
