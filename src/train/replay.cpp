#include "src/train/replay.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <xxhash.h>

#include "kernels/common/fault.h"

#include "src/base/file.h"
#include "src/base/text.h"
#include "src/base/version.h"
#include "src/config/schema.h"
#include "src/device/blas.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_shared.h"
#include "src/train/products.h"

namespace ogrom {
namespace {

// Keys that decide the order of sums even where numerics.deterministic fixes what it can, and those that it makes
// indifferent (contracts: ZeRO stage, buckets, overlap, stages and schedules, recomputation).
constexpr const char* bit_keys[] = {"parallel.data",      "parallel.context",           "parallel.expert",
                                    "parallel.tensor",    "parallel.sequence_parallel", "train.micro_batch",
                                    "train.global_batch", "train.logits_rows",          "comm.gradient_dtype",
                                    "numerics.compute",   "numerics.linears",           "numerics.deterministic"};
constexpr const char* layout_keys[] = {"parallel.pipeline",      "parallel.schedule", "parallel.virtual_stages",
                                       "parallel.stage_layers",  "parallel.zero",     "parallel.zero_group",
                                       "parallel.zero_regather", "train.recompute",   "train.recompute_interval",
                                       "comm.bucket_mib",        "comm.overlap"};

template <std::size_t N>
std::map<std::string, std::string> values_of(const char* const (&keys)[N], const RunConfig& run) {
    std::map<std::string, std::string> values;
    for (const char* const name : keys) {
        const Key* const key = find_key(name);
        OGROM_ASSERT(key != nullptr);
        values[name] = value_text(*key, run);
    }
    return values;
}

bool same_bits(double a, double b) {
    return std::bit_cast<u64>(a) == std::bit_cast<u64>(b);
}

bool agree(double recorded, double replayed, const std::optional<double>& bound) {
    if (!bound || !std::isfinite(recorded) || !std::isfinite(replayed)) {
        return same_bits(recorded, replayed) || (bound && !std::isfinite(recorded) && !std::isfinite(replayed));
    }
    return std::abs(replayed - recorded) <= *bound * std::abs(recorded);
}

std::string steps_beside(const std::string& checkpoint) {
    std::vector<std::string> names;
    const std::string folder = parent_path(checkpoint);
    for (const std::string& name : list_directory(folder)) {
        if (step_of(name) && file_exists(join_path(join_path(folder, name), replay_trace_name))) {
            names.push_back(name);
        }
    }
    return names.empty() ? std::string("no checkpoint beside it has one")
                         : fmt::format("--resume=PATH of one beside it that has: {}", join(names, ", "));
}

}  // namespace

template <class T>
ReplayConditions replay_conditions(const Engine<T>& engine, int threads, const SavedTexts& texts) {
    const RunConfig& run = engine.run;
    const MeshShape& shape = engine.mesh.shape;
    ReplayConditions conditions;
    conditions.ranks = shape.size();
    conditions.arithmetic = std::string(name_of(run.precision.weights));
    // Kernels of the CPU add in one order, whatever the threads do; between ranks only numerics.deterministic fixes it.
    const bool alone = engine.decisions.backend == Backend::cpu && shape.dp * shape.cp * shape.tp == 1;
    conditions.any_layout = run.numerics.deterministic;
    conditions.repeatable = run.numerics.deterministic || alone;
    conditions.bits_depend_on = values_of(bit_keys, run);
    conditions.layout = values_of(layout_keys, run);
    const BuildInfo& build = build_info();
    auto& bits = conditions.bits_depend_on;
    bits["device"] = engine.decisions.backend == Backend::cpu ? "cpu" : "cuda";
    bits["kernels"] = kernel_choice(texts.gpu);
    bits["BLAS"] = blas_description();
    bits["threads of a rank"] = std::to_string(threads);
    bits["program"] = fmt::format("{} {}", build.program, build.git);
    bits["compiler"] = fmt::format("{} {} {} {}", build.compiler, build.type, build.march, build.flags);
    const std::string products = products_within(texts.provenance_json);
    bits["matrix products of the GPU"] =
        products.empty() ? "none" : fmt::format("{:016x}", u64{XXH3_64bits(products.data(), products.size())});
    return conditions;
}

// Step 1 starts from equal bits: its loss and norm are sums whose terms moved by a few roundoffs each, in random
// directions; the project's bounds for them are 1e-9 in fp64 and 1e-5 in fp32 (seen on the tests' models: 1e-14 and
// 1e-8). 16 bits of roundoff u: the loss is a mean over all targets of terms that move by a few u, so u itself; the
// norm, a mean over fewer terms, 8 u. From step 2 on the weights differ: AdamW makes a whole step of the rate out of a
// gradient that is noise, so the norm, which is linear in the weights, moves on with every step. The loss does not: it
// is flat in the directions whose gradient is near 0.
ReplayBound replay_bound(const std::string& arithmetic, i64 nth) {
    const auto steps = static_cast<double>(nth);
    if (arithmetic == "fp64") {
        return {1e-9, 1e-9};
    }
    if (arithmetic == "fp32") {
        return {1e-5, 1e-5 * steps};
    }
    const double u = arithmetic == "bf16" ? 0x1p-8 : 0x1p-11;
    return {u, 8 * u * steps};
}

std::string first_difference(const ReplayRow& recorded, const ReplayRow& replayed,
                             const std::optional<ReplayBound>& bound) {
    if (fault_active("replay_not_compared")) {
        return {};
    }
    const auto of = [&](double ReplayBound::*field) { return bound ? std::optional((*bound).*field) : std::nullopt; };
    if (!same_bits(recorded.lr, replayed.lr)) {
        return "learning rate";
    }
    if (recorded.skipped != replayed.skipped) {
        return "skipped";
    }
    if (!agree(recorded.loss, replayed.loss, of(&ReplayBound::loss))) {
        return "loss";
    }
    if (!agree(recorded.gradient_norm, replayed.gradient_norm, of(&ReplayBound::norm))) {
        return "gradient norm";
    }
    const bool hashed = !bound && !fault_active("step_trace_hash_ignored");
    return hashed && recorded.weight_hash != replayed.weight_hash ? "weight hash" : "";
}

const ReplayStep* ReplayReport::first_different() const {
    const auto found =
        std::find_if(steps.begin(), steps.end(), [](const ReplayStep& s) { return !s.difference.empty(); });
    return found == steps.end() ? nullptr : &*found;
}

ExitCode ReplayReport::code() const {
    if (first_different() != nullptr) {
        return ExitCode::numerics;
    }
    return stopped ? ExitCode::saved_for_requeue : ExitCode::done;
}

ReplayRecord record_to_replay(Communicator& world, const std::string& checkpoint, u64 weight_hash) {
    require(!checkpoint.empty(), ExitCode::checkpoint,
            "--resume-verify: there is no checkpoint to verify, this would be a fresh start");
    const std::string path = join_path(checkpoint, replay_trace_name);
    const std::string text = share_result(world, "record to replay", [&] {
        if (world.rank() != 0) {
            return std::string();
        }
        const std::optional<std::string> found = read_replay_text(checkpoint);
        if (!found) {
            fail(ExitCode::checkpoint,
                 fmt::format("--resume-verify: {} has no {}: a run writes it while it trains on after the save "
                             "(checkpoint.trace_steps > 0), which no run did that was stopped or at its end there; {}",
                             checkpoint, replay_trace_name, steps_beside(checkpoint)));
        }
        const ReplayRecord record = parse_replay(*found, path);
        require(record.weight_hash == weight_hash, ExitCode::checkpoint,
                fmt::format("{}: is of a checkpoint with the weight hash {:016x}, this one has {:016x}", path,
                            record.weight_hash, weight_hash));
        return *found;
    });
    return parse_replay(text, path);
}

template <class T>
ReplayRow replay_row(const Engine<T>& engine, const StepResult& result) {
    return {engine.step, result.loss, result.norm, result.lr, result.skipped, engine.model_hash()};
}

template <class T>
ReplayReport replay(Engine<T>& engine, Prefetch& prefetch, const std::string& checkpoint, const ReplayRecord& record,
                    const ReplayConditions& now, const std::function<bool()>& stop) {
    ReplayReport report{checkpoint, record.step, record.wanted, static_cast<i64>(record.rows.size()), {}, {}, false};
    report.against_bits = reasons_against_bits(record.conditions, now);
    for (const ReplayRow& row : record.rows) {
        const std::vector<Batch> batches = prefetch.next(engine.step);
        const StepControl control = agree_control(engine.mesh, batches, stop() ? Wish::stop : Wish::go_on);
        if (control.stop) {
            report.stopped = true;
            break;
        }
        ReplayStep step{row, replay_row(engine, train_step<T>(engine, batches, control.targets)), {}, {}};
        if (!report.against_bits.empty()) {
            step.bound = replay_bound(record.conditions.arithmetic, row.step - record.step);
        }
        step.difference = first_difference(step.recorded, step.replayed, step.bound);
        report.steps.push_back(std::move(step));
    }
    return report;
}

#define OGROM_INSTANCE(T)                                                                           \
    template ReplayConditions replay_conditions<T>(const Engine<T>&, int, const SavedTexts&);       \
    template ReplayRow replay_row<T>(const Engine<T>&, const StepResult&);                          \
    template ReplayReport replay<T>(Engine<T>&, Prefetch&, const std::string&, const ReplayRecord&, \
                                    const ReplayConditions&, const std::function<bool()>&)
OGROM_INSTANCE(float);
OGROM_INSTANCE(double);
OGROM_INSTANCE(Bf16);
OGROM_INSTANCE(Fp16);
#undef OGROM_INSTANCE

}  // namespace ogrom
