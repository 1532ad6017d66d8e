#include "src/plan/decide.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "src/base/text.h"

namespace ogrom {
namespace {

std::string kind_of(const RunConfig& run) {
    if (run.optimizer.kind == OptimizerKind::adamw) {
        return "adamw: two moments per weight";
    }
    return run.optimizer.momentum > 0 ? "sgd with momentum: one moment per weight" : "sgd: no moments";
}

}  // namespace

Decisions decide(const RunConfig& run, const MeshShape& mesh, const MeshPlace& place, int threads) {
    Decisions d;
    d.span = {place.pp, 0, 0, run.model.layers, true, true};
    const i64 rows = run.train.micro_batch * run.train.sequence;
    d.extents = {run.train.micro_batch, run.train.sequence, 1, std::min(run.train.logits_rows, rows), threads};
    d.micro_batches = run.train.accumulation;
    d.reduce_order = run.numerics.deterministic ? ReduceOrder::fixed : ReduceOrder::any;
    const double bucket_bytes = run.comm.bucket_mib * 1024 * 1024;
    d.bucket_elements = std::max<i64>(1, std::llround(bucket_bytes) / size_of(run.numerics.compute));
    d.overlap = run.comm.overlap && mesh.dp > 1;
    const bool adamw = run.optimizer.kind == OptimizerKind::adamw;
    d.has_moment1 = adamw || run.optimizer.momentum > 0;
    d.has_moment2 = adamw;

    d.reasons.push_back(fmt::format("{} threads per rank", threads));
    d.reasons.push_back(kind_of(run));
    d.reasons.push_back(
        fmt::format("{} of {} rows of logits at once: the full table never exists", d.extents.logits_rows, rows));
    if (mesh.dp == 1) {
        d.reasons.emplace_back("one data-parallel rank: no gradient is exchanged");
    } else {
        d.reasons.push_back(fmt::format(
            "gradients in buckets of {} ({} elements), {}, summed {}", human_bytes(std::llround(bucket_bytes)),
            group_digits(d.bucket_elements), d.overlap ? "while backward goes on" : "after backward (comm.overlap)",
            run.numerics.deterministic ? "in rank order (numerics.deterministic)" : "in the order MPI finds fastest"));
    }
    return d;
}

}  // namespace ogrom
