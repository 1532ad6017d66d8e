// ogrom convert --to hf, and --from hf. Comes in: a checkpoint, or a folder of Hugging Face's form. Goes out: the other
// of the two. Next: io/hf_export.cpp, io/hf_import.cpp
#include <fmt/format.h>

#include "src/base/error.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/commands/convert.h"
#include "src/io/hf_gpt2.h"

namespace ogrom {

int convert_to_hf(const ConvertOptions& options) {
    require(options.shard_bytes >= 1, ExitCode::usage,
            fmt::format("--shard-bytes {} is out of range: 1 or above", options.shard_bytes));
    const HfReport report = export_hf(options.source, options.out, options.type, options.shard_bytes);
    log_info("{}: step {}, {} parameters in {} tensors of {}, {} in {} files", options.out, report.step,
             report.parameters, report.tensors, name_of(report.type), human_bytes(report.bytes), report.files);
    if (report.tokenizer_left) {
        log_warning("{}: {}", options.out, report.tokenizer);
    } else {
        log_info("{}: {}", options.out, report.tokenizer);
    }
    return static_cast<int>(ExitCode::done);
}

int convert_from_hf(const ConvertOptions& options) {
    require(!file_exists(options.source) || is_directory(options.source), ExitCode::data,
            fmt::format("{}: is no folder; would be right: the folder that holds config.json and model.safetensors",
                        options.source));
    const HfSource source(options.source);
    if (!source.unused().empty()) {
        log_warning("{}: config.json: keys that this program does not know and leaves out: {}", options.source,
                    join(source.unused(), ", "));
    }
    const RewriteReport report = write_checkpoint(source, options.out, 1, Kept::weights);
    log_info("{}: step {}, {} weights in {}, {}; equal to the source value for value", options.out, report.step,
             report.elements, name_of(source.type()), human_bytes(report.bytes));
    return static_cast<int>(ExitCode::done);
}

}  // namespace ogrom
