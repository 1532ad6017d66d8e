// Every pipeline layout that the tests go through.
#pragma once
#include <fmt/format.h>
#include <string>
#include <vector>

#include "src/pipeline/actions.h"

namespace ogrom::test {

inline std::string text_of(const ScheduleSpec& spec) {
    return fmt::format("{}, {} stages, {} chunks, {} micro-batches", name_of(spec.kind), spec.stages,
                       spec.virtual_stages, spec.micro_batches);
}

// Kinds x stages 1 .. max_stages x chunks 1 .. 3 (interleaved only) x micro-batches 1 .. max_micro_batches.
inline std::vector<ScheduleSpec> all_specs(i64 max_stages, i64 max_micro_batches) {
    std::vector<ScheduleSpec> specs;
    for (const PipelineSchedule kind : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                                        PipelineSchedule::interleaved, PipelineSchedule::zero_bubble}) {
        for (i64 p = 1; p <= max_stages; ++p) {
            for (i64 v = 1; v <= (kind == PipelineSchedule::interleaved ? 3 : 1); ++v) {
                for (i64 m = 1; m <= max_micro_batches; ++m) {
                    specs.push_back({kind, p, v, m});
                }
            }
        }
    }
    return specs;
}

}  // namespace ogrom::test
