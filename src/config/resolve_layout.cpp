// The layout inside the mesh: layers on stages (B49), positions on tensor ranks, shards on data ranks, and what is
// computed again. Every number that does not fit is refused with both numbers and the nearest that do.
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "kernels/common/fault.h"

#include "src/config/layer_map.h"
#include "src/config/near.h"
#include "src/config/resolve.h"

namespace ogrom {

namespace {

std::string list_text(const std::vector<i64>& numbers) {
    constexpr std::size_t most = 16;
    const auto last = numbers.begin() + static_cast<std::ptrdiff_t>(std::min(most, numbers.size()));
    return fmt::format("[{}{}]", fmt::join(numbers.begin(), last, ", "), numbers.size() > most ? ", ..." : "");
}

// "2 stages", "2 stages x 3 virtual_stages = 6 chunks"
std::string chunks_text(const ParallelConfig& p) {
    return p.virtual_stages == 1 ? fmt::format("{} stages", p.pipeline)
                                 : fmt::format("{} stages x {} virtual_stages = {} chunks", p.pipeline,
                                               p.virtual_stages, p.pipeline * p.virtual_stages);
}

// False, and a fault, when a chunk would have no layer.
bool chunks_fit(Resolution& r) {
    const ParallelConfig& p = r.run.parallel;
    const i64 layers = r.run.model.layers, chunks = p.pipeline * p.virtual_stages;
    if (chunks <= layers) {
        return true;
    }
    std::string right;
    if (const i64 most = layers / p.virtual_stages; most > 1 || p.virtual_stages == 1) {
        right += fmt::format("pipeline at most {}, or ", most);
    }
    if (const i64 most = layers / p.pipeline; p.virtual_stages > 2 && most >= 2) {
        right += fmt::format("virtual_stages at most {}, or ", most);
    }
    r.fault("parallel.pipeline",
            fmt::format("{} for model.layers {}: one would have no layer; would be right: {}model.layers {} or more",
                        chunks_text(p), layers, right, chunks));
    return false;
}

void check_stage_layers(Resolution& r) {
    const ParallelConfig& p = r.run.parallel;
    const i64 layers = r.run.model.layers, chunks = p.pipeline * p.virtual_stages;
    const auto count = static_cast<i64>(p.stage_layers.size());
    const i64 sum = std::accumulate(p.stage_layers.begin(), p.stage_layers.end(), i64{0});
    const std::string right = fmt::format("{} numbers with sum {}, as {}, or without this key", chunks, layers,
                                          list_text(even_split(layers, chunks)));
    if (count != chunks) {
        r.fault("parallel.stage_layers", fmt::format("{} has {} numbers for {}; would be right: {}",
                                                     list_text(p.stage_layers), count, chunks_text(p), right));
    } else if (sum != layers) {
        r.fault("parallel.stage_layers", fmt::format("{} has the sum {}, but model.layers is {}; would be right: {}",
                                                     list_text(p.stage_layers), sum, layers, right));
    }
}

void resolve_stages(Resolution& r) {
    RunConfig& run = r.run;
    ParallelConfig& p = run.parallel;
    if (!r.sound({"model.layers", "parallel.pipeline", "parallel.schedule", "parallel.virtual_stages",
                  "parallel.stage_layers"})) {
        return;
    }
    if (p.schedule == PipelineSchedule::interleaved && p.virtual_stages < 2) {
        const i64 most = run.model.layers / p.pipeline;
        const std::string more = most > 2 ? fmt::format(" (up to {})", most) : "";
        r.fault("parallel.schedule",
                fmt::format("\"interleaved\" with virtual_stages {} interleaves nothing; would be right: {}\"1f1b\"",
                            p.virtual_stages,
                            most >= 2 ? fmt::format("parallel.virtual_stages = 2{}, or ", more)
                                      : fmt::format("model.layers {} or more with parallel.virtual_stages = 2, or ",
                                                    2 * p.pipeline)));
        return;
    }
    if (!chunks_fit(r)) {
        return;
    }
    if (r.given("parallel.stage_layers")) {
        check_stage_layers(r);
    } else {
        p.stage_layers = even_split(run.model.layers, p.pipeline * p.virtual_stages);
        r.derived["parallel.stage_layers"] = "as even as possible";
    }
    if (p.pipeline > 1 && r.faults.empty()) {
        r.note("layer map: " + layer_map_text(run.model, p));
    }
}

void resolve_sequence_parallel(Resolution& r) {
    ParallelConfig& p = r.run.parallel;
    if (!r.sound({"parallel.tensor", "parallel.sequence_parallel", "train.sequence", "model.sequence"}) ||
        p.tensor == 1) {
        return;
    }
    const i64 T = r.run.train.sequence;
    const bool divides = T % p.tensor == 0;
    // The multiples of tensor on both sides, as far as the position table goes.
    const i64 low = T / p.tensor * p.tensor;
    std::string right = low > 0 ? fmt::format("{}", low) : "";
    if (const i64 high = low + p.tensor; high <= r.run.model.sequence) {
        right += fmt::format("{}{}", right.empty() ? "" : " or ", high);
    }
    right = right.empty() ? fmt::format("model.sequence and train.sequence of at least {}", p.tensor)
                          : "train.sequence " + right;
    if (!r.given("parallel.sequence_parallel")) {
        p.sequence_parallel = divides;
        r.derived["parallel.sequence_parallel"] =
            fmt::format("train.sequence {} {} a multiple of tensor {}", T, divides ? "is" : "is not", p.tensor);
        if (!divides) {
            r.note(
                fmt::format("no sequence parallelism: train.sequence {} is not a multiple of parallel.tensor {}; "
                            "for it: {}",
                            T, p.tensor, right));
        }
    } else if (p.sequence_parallel && !divides) {
        r.fault("parallel.sequence_parallel",
                fmt::format("true, but train.sequence {} is not a multiple of parallel.tensor {}; would be right: {}, "
                            "or false",
                            T, p.tensor, right));
    }
}

void resolve_sharding(Resolution& r) {
    ParallelConfig& p = r.run.parallel;
    if (!r.sound({"parallel.data", "parallel.zero", "parallel.zero_group"})) {
        return;
    }
    if (!r.given("parallel.zero_group")) {
        p.zero_group = p.data;
        r.derived["parallel.zero_group"] = "= data";
    } else if (const bool known = r.input.ranks > 0 || r.given("parallel.data");
               known && p.data % p.zero_group != 0 && !fault_active("config_shard_group")) {
        r.fault(
            "parallel.zero_group",
            fmt::format("{} does not divide parallel.data {}; would be right: zero_group {}, or data {}", p.zero_group,
                        p.data, nearest_divisors(p.data, p.zero_group), nearest_multiples(p.data, p.zero_group)));
        return;
    }
    if (p.zero > 0 && p.zero_group == 1) {
        r.note(
            fmt::format("parallel.zero {}: nothing to shard {}", p.zero,
                        p.data == 1 ? "with one data-parallel rank" : "in groups of one rank (parallel.zero_group)"));
    } else if (p.zero > 0 && p.zero_group < p.data) {
        r.note(fmt::format("parallel.zero {}: sharded over groups of {} data-parallel ranks, {} copies", p.zero,
                           p.zero_group, p.data / p.zero_group));
    }
}

}  // namespace

void resolve_layout(Resolution& r) {
    resolve_stages(r);
    resolve_sequence_parallel(r);
    resolve_sharding(r);
    const i64 layers = r.run.model.layers, interval = r.run.train.recompute_interval;
    if (r.sound({"model.layers", "train.recompute_interval"}) && interval > layers) {
        r.fault("train.recompute_interval",
                fmt::format("every {}-th layer of model.layers {}; would be right: 1 .. {}", interval, layers, layers));
    }
}

}  // namespace ogrom
