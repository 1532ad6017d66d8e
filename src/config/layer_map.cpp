#include "src/config/layer_map.h"

#include <fmt/format.h>
#include <numeric>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

#include "src/base/text.h"

namespace ogrom {

std::vector<i64> even_split(i64 layers, i64 chunks) {
    require(chunks >= 1 && layers >= chunks, ExitCode::usage,
            fmt::format("{} layers cannot fill {} chunks", layers, chunks));
    std::vector<i64> parts(static_cast<std::size_t>(chunks), layers / chunks);
    const i64 more = fault_active("config_layers_dropped") ? 0 : layers % chunks;
    for (i64 i = 0; i < more; ++i) {
        ++parts[static_cast<std::size_t>(i)];
    }
    return parts;
}

std::vector<StageSpan> stage_spans(const ModelConfig& model, const ParallelConfig& parallel, i64 stage) {
    const i64 chunks = parallel.pipeline * parallel.virtual_stages;
    require(stage >= 0 && stage < parallel.pipeline, ExitCode::usage,
            fmt::format("stage {} of a pipeline of {}", stage, parallel.pipeline));
    const std::vector<i64> parts =
        parallel.stage_layers.empty() ? even_split(model.layers, chunks) : parallel.stage_layers;
    const i64 sum = std::accumulate(parts.begin(), parts.end(), i64{0});
    const bool covers = static_cast<i64>(parts.size()) == chunks && sum == model.layers;
    require(covers || fault_active("config_layers_dropped"), ExitCode::usage,
            fmt::format("a layer map of {} chunks and {} layers for {} chunks and {} layers", parts.size(), sum, chunks,
                        model.layers));
    std::vector<StageSpan> spans;
    i64 first = 0;
    for (i64 k = 0; k < chunks; ++k) {
        const i64 last = first + parts[static_cast<std::size_t>(k)];
        if (k % parallel.pipeline == stage) {
            spans.push_back({stage, k / parallel.pipeline, first, last, k == 0, k == chunks - 1});
        }
        first = last;
    }
    return spans;
}

std::string layer_map_text(const ModelConfig& model, const ParallelConfig& parallel) {
    std::vector<std::string> stages;
    for (i64 stage = 0; stage < parallel.pipeline; ++stage) {
        std::vector<std::string> chunks;
        for (const StageSpan& span : stage_spans(model, parallel, stage)) {
            const i64 final = span.last_layer - 1;
            chunks.push_back(span.first_layer == final ? fmt::format("{}", final)
                                                       : fmt::format("{}-{}", span.first_layer, final));
        }
        stages.push_back(fmt::format("stage {}: layers {}", stage, join(chunks, ", ")));
    }
    return join(stages, "; ");
}

}  // namespace ogrom
