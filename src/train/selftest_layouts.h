// The layouts that `ogrom selftest` compares: two tiny models, every mesh of the ranks with every ZeRO stage and
// pipeline schedule, the other factors pairwise: each pair of
// values of two factors, ZeRO stage and schedule among them, meets in some layout (on 8 ranks; fewer ranks have
// fewer layouts than pairs). Pure.
#pragma once
#include <string>
#include <vector>

#include "src/config/run.h"

namespace ogrom {

struct SelftestModel {
    std::string name;
    i64 layers = 0, hidden = 0, heads = 0, vocab = 0, sequence = 0, batch = 0;
};
// "odd": hidden 60, 3 layers, vocabulary 509, batch 12; "even": hidden 64, 16 layers, 8 heads, vocabulary 512, batch
// 16, which admits 8 tensor ranks and 8 stages.
const std::vector<SelftestModel>& selftest_models();

struct SelftestLayout {
    i64 model = 0;  // of selftest_models()
    i64 pipeline = 1, data = 1, tensor = 1, zero = 0;
    PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
    // Factors taken pairwise.
    bool replicas = false;  // shard over half of data alone (HSDP)
    bool sequence_parallel = false;
    Recompute recompute = Recompute::none;
    i64 recompute_interval = 1;
    bool small_buckets = false;  // of a few elements, so that they split tensors
    bool overlap = true;
    bool regather_once = false;  // ZeRO-3: gathered weights stay for the step
    bool deterministic = true;
    bool dropout = false, tied = true;
    i64 micro_batch = 1;
    // Of the trial.
    i64 steps = 3;
    bool plain_sgd = false;  // rate 1, no clipping: one step shows the gradient itself (B04)
    Dtype compute = Dtype::fp64;

    [[nodiscard]] const SelftestModel& sizes() const { return selftest_models()[static_cast<std::size_t>(model)]; }
    [[nodiscard]] std::string name() const;  // "even pp2 dp2 tp2 zero3 1f1b sp recompute=full"
    // Which serial run it is compared with: equal for layouts that train the same model.
    [[nodiscard]] i64 reference() const { return model * 4 + (dropout ? 2 : 0) + (tied ? 1 : 0); }
    // Layouts of one key agree bit for bit in deterministic mode; empty where that is not claimed.
    [[nodiscard]] std::string bit_key() const;
    [[nodiscard]] std::string run_text() const;  // a run file
};
inline constexpr i64 selftest_references = 8;
SelftestLayout selftest_serial(i64 reference);

enum class Coverage { pairwise, full };
std::vector<SelftestLayout> selftest_layouts(i64 ranks, Coverage coverage);

}  // namespace ogrom
