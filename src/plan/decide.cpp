#include "src/plan/decide.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "src/base/text.h"
#include "src/config/layer_map.h"
#include "src/plan/linears.h"

namespace ogrom {
namespace {

std::string kind_of(const RunConfig& run) {
    if (run.optimizer.kind == OptimizerKind::adamw) {
        return "adamw: two moments per weight";
    }
    return run.optimizer.momentum > 0 ? "sgd with momentum: one moment per weight" : "sgd: no moments";
}

// Chunks per stage: virtual stages exist in the interleaved schedule alone.
ScheduleSpec schedule_of(const RunConfig& run) {
    ScheduleSpec spec;
    spec.kind = run.parallel.schedule;
    spec.stages = run.parallel.pipeline;
    spec.virtual_stages = run.parallel.virtual_stages;
    spec.micro_batches = run.train.accumulation;
    return spec;
}

StageShape shape_of(const RunConfig& run, const MeshShape& mesh, const MeshPlace& place, const StageSchedule& actions,
                    int threads) {
    const i64 rows = run.train.micro_batch * run.train.sequence;
    StageShape shape;
    shape.spans = stage_spans(run.model, run.parallel, place.pp);
    shape.extents.micro_batch = run.train.micro_batch;
    shape.extents.sequence = run.train.sequence;
    shape.extents.logits_rows = std::min(run.train.logits_rows, rows);
    shape.extents.threads = threads;
    shape.extents.slots = actions.slots;
    shape.extents.gradient_buffers = actions.buffers;
    shape.extents.weight_slots = actions.weight_slots;
    shape.tensor = {mesh.tp, place.tp};
    shape.sequence = run.parallel.sequence_parallel ? Sequence::split : Sequence::whole;
    shape.recompute = run.train.recompute;
    shape.recompute_interval = run.train.recompute_interval;
    shape.reduce_order = run.numerics.deterministic ? ReduceOrder::fixed : ReduceOrder::any;
    shape.linears = run.numerics.linears;
    return shape;
}

StepOptions step_options(const RunConfig& run, const MeshShape& mesh) {
    StepOptions step;
    step.zero = mesh.dp > 1 ? static_cast<int>(run.parallel.zero) : 0;  // one copy: nothing to share, nothing staged
    const bool staged = run.numerics.deterministic || step.zero >= 2;
    step.way = staged ? GradientWay::staged : GradientWay::direct;
    step.order = run.numerics.deterministic ? ReduceOrder::fixed : ReduceOrder::any;
    const double bucket_bytes = run.comm.bucket_mib * 1024 * 1024;
    step.bucket_elements = std::max<i64>(1, std::llround(bucket_bytes) / size_of(run.numerics.compute));
    step.overlap = run.comm.overlap && mesh.dp > 1;
    step.regather = run.parallel.regather;
    step.sequence_parallel = run.parallel.sequence_parallel;
    return step;
}

// Groups of neighbours on the data axis; without ZeRO one group of all: who
// adds first and who sums which part.
StepPlace step_place(const RunConfig& run, const MeshShape& mesh, const MeshPlace& place) {
    const int group = run.parallel.zero > 0 ? static_cast<int>(run.parallel.zero_group) : mesh.dp;
    return {place.dp % group, group, place.dp / group, mesh.dp / group};
}

std::string gradients_text(const RunConfig& run, const MeshShape& mesh, const StepOptions& step) {
    if (mesh.dp == 1) {
        return "one data-parallel rank: no gradient is exchanged";
    }
    const char* way = step.way == GradientWay::direct ? "in the last micro-batch" : "in every micro-batch";
    return fmt::format(
        "gradients in buckets of {} ({} elements), reduced {}, {}, summed {}",
        human_bytes(step.bucket_elements * size_of(run.numerics.compute)), group_digits(step.bucket_elements), way,
        step.overlap ? "while backward goes on" : "without overlap (comm.overlap)",
        run.numerics.deterministic ? "in rank order (numerics.deterministic)" : "in the order MPI finds fastest");
}

std::string zero_text(const StepOptions& step, const StepPlace& place) {
    const char* sharded = step.zero == 1   ? "optimizer state"
                          : step.zero == 2 ? "optimizer state and gradients"
                                           : "optimizer state, gradients and weights";
    std::string text = fmt::format("ZeRO {}: {} sharded over {} ranks", step.zero, sharded, place.parts);
    if (step.zero == 3) {
        text += step.regather == Regather::step ? "; each unit gathered once a step" : "; units gathered one ahead";
    }
    return text;
}

std::string pipeline_text(const ScheduleSpec& spec, const StageSchedule& actions) {
    i64 slots = 0;
    for (const i64 n : actions.slots) {
        slots += n;
    }
    return fmt::format("pipeline {} over {} stages{}; {} activation slot{} on the first stage", name_of(spec.kind),
                       spec.stages,
                       spec.virtual_stages > 1 ? fmt::format(" x {} chunks", spec.virtual_stages) : std::string(),
                       slots, slots == 1 ? "" : "s");
}

std::string loss_scale_text(const PrecisionConfig& precision) {
    if (precision.loss_scale == LossScaleKind::fixed) {
        return fmt::format("loss times {} within the passes", precision.loss_scale_initial);
    }
    return fmt::format(
        "loss times {} within the passes at first; halved, down to {}, where the gradient is not finite, "
        "doubled after {} steps without",
        precision.loss_scale_initial, precision.loss_scale_min, precision.loss_scale_window);
}

std::string saves_text(const RunConfig& run, const Decisions& d) {
    const char* const way = run.checkpoint.direct_io ? "past the page cache (checkpoint.direct_io = true)"
                                                     : "through the page cache (checkpoint.direct_io = false)";
    if (!d.background_saves) {
        return fmt::format("saves hold the steps up until they are on the disk ({}), written {}",
                           run.checkpoint.async ? "checkpoint.interval_steps = 0" : "checkpoint.async = false", way);
    }
    const double limit = run.checkpoint.write_mb_per_s;
    return fmt::format("saves hold the steps up for a copy (snapshot.* below) and are written behind them, {}{}", way,
                       limit > 0 ? fmt::format(", at most {} MB/s per rank", limit) : std::string());
}

// Where something travels between ranks within a pass it cannot be launched whole: that is done by the host.
std::string within_passes(const RunConfig& run, const Decisions& d) {
    if (run.run.graphs == "never") {
        return "run.graphs = never";
    }
    if (d.shape.tensor.size > 1) {
        return "tensor ranks exchange within them";
    }
    if (d.step.zero == 3) {
        return "weights are gathered within them";
    }
    return d.step.way == GradientWay::staged ? "gradients are reduced within them" : "";
}

void add_reasons(const RunConfig& run, const MeshShape& mesh, Decisions& d) {
    const i64 rows = run.train.micro_batch * run.train.sequence;
    const i64 threads = d.shape.extents.threads;
    d.reasons.push_back(fmt::format("{} thread{} per rank", threads, threads == 1 ? "" : "s"));
    d.reasons.push_back(kind_of(run));
    if (has_16_bits(run.precision.weights)) {
        d.reasons.push_back(fmt::format("{} weights and activations; master, moments, gradients and sums in fp32",
                                        name_of(run.precision.weights)));
    }
    if (run.precision.weights == Dtype::fp16) {
        d.reasons.push_back(loss_scale_text(run.precision));
    }
    if (run.numerics.linears == LinearProducts::fp8) {
        d.reasons.push_back(fp8_text(run, d.shape));
    }
    d.reasons.push_back(fmt::format("{} of {} rows of logits at once{}", d.shape.extents.logits_rows, rows,
                                    d.shape.extents.logits_rows < rows ? ": the full table never exists" : ""));
    if (mesh.pp > 1) {
        d.reasons.push_back(pipeline_text(d.schedule, d.actions));
    }
    if (mesh.tp > 1) {
        d.reasons.push_back(fmt::format("tensor parallel over {} ranks, {}", mesh.tp,
                                        run.parallel.sequence_parallel
                                            ? "norms and dropout split over positions (sequence parallel)"
                                            : "norms and dropout on every rank"));
    }
    d.reasons.push_back(gradients_text(run, mesh, d.step));
    d.reasons.push_back(saves_text(run, d));
    if (d.step.zero > 0 && d.place.parts > 1) {  // else the notes of the configuration say that nothing is shared
        d.reasons.push_back(zero_text(d.step, d.place));
    }
    if (run.train.recompute == Recompute::selective) {
        d.reasons.emplace_back(
            "recompute selective: norms and GELU output are "
            "made again in backward");
    } else if (run.train.recompute == Recompute::full) {
        d.reasons.push_back(fmt::format("recompute full: every {} layer keeps its input alone",
                                        run.train.recompute_interval == 1
                                            ? std::string("single")
                                            : fmt::format("{}th", run.train.recompute_interval)));
    }
}

}  // namespace

i64 batches_at_once(const Decisions& decisions) {
    return std::max(decisions.micro_batches, decisions.evaluation_batch);
}

Decisions decide(const RunConfig& run, const MeshShape& mesh, const MeshPlace& place, int threads, Backend backend) {
    Decisions d;
    d.backend = backend;
    d.schedule = schedule_of(run);
    d.actions = make_stage_schedule(d.schedule, place.pp);
    d.shape = shape_of(run, mesh, place, d.actions, threads);
    d.shape.backend = backend;
    require_fp8_somewhere(run, d.shape);
    d.step = step_options(run, mesh);
    d.place = step_place(run, mesh, place);
    d.micro_batches = run.train.accumulation;
    d.evaluation_batch = mesh.pp == 1 ? 1 : 2 * run.parallel.pipeline;
    const bool adamw = run.optimizer.kind == OptimizerKind::adamw;
    d.has_moment1 = adamw || run.optimizer.momentum > 0;
    d.has_moment2 = adamw;
    d.background_saves = run.checkpoint.async && run.checkpoint.interval_steps > 0;
    const std::string travels = within_passes(run, d);
    d.records_passes = backend == Backend::cuda && travels.empty();
    add_reasons(run, mesh, d);
    if (backend == Backend::cuda && !travels.empty()) {
        d.reasons.push_back(fmt::format("passes are launched kernel by kernel: {}", travels));
    }
    return d;
}

}  // namespace ogrom
