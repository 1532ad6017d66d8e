#include "src/base/text.h"

#include <algorithm>
#include <fmt/format.h>

#include "src/plan/decide.h"

namespace ogrom {
namespace {

std::string schedule_text(const RunConfig& run) {
    const OptimizerConfig& o = run.optimizer;
    std::string text = o.warmup_steps > 0 ? fmt::format("warm-up over optimizer steps 1..{}, lr {} at step {}",
                                                        o.warmup_steps, o.lr, o.warmup_steps)
                                          : fmt::format("no warm-up, lr {} at step 1", o.lr);
    switch (o.schedule) {
        case ScheduleKind::cosine:
            return text + fmt::format("; cosine to {} at step {}", o.min_lr, o.decay_steps);
        case ScheduleKind::linear:
            return text + fmt::format("; linear to {} at step {}", o.min_lr, o.decay_steps);
        case ScheduleKind::constant:
            return text + "; constant";
        case ScheduleKind::wsd:
            return text + fmt::format("; constant until step {}, linear to {} at step {}",
                                      std::max(o.warmup_steps, run.train.steps - o.decay_steps), o.min_lr,
                                      run.train.steps);
    }
    return text;
}

std::string every(i64 interval, const char* what) {
    return interval > 0 ? fmt::format("{} every {} steps and at the end", what, interval)
                        : fmt::format("{} at the end", what);
}

}  // namespace

std::string plan_text(const RunConfig& run, const MeshShape& mesh, const Decisions& decisions, const Ledger& ledger) {
    const TrainConfig& t = run.train;
    const ModelConfig& m = run.model;
    const i64 parameters = make_parameters(m, run.numerics.compute).count();
    std::string out = "plan\n";
    out += fmt::format(
        "  model     {} layers, hidden {}, {} heads of {}, ffn {}, vocabulary {} (stored {}), {} head: {} "
        "parameters\n",
        m.layers, m.hidden, m.heads, m.head_dim, m.ffn_hidden, m.vocab, m.padded_vocab, m.tied ? "tied" : "untied",
        group_digits(parameters));
    out += fmt::format("  mesh      pp {} x dp {} x cp {} x ep {} x tp {} = {} rank{}\n", mesh.pp, mesh.dp, mesh.cp,
                       mesh.ep, mesh.tp, mesh.size(), mesh.size() == 1 ? "" : "s");
    out += fmt::format("  batch     global {} = micro {} x accumulation {} x dp {}; {} tokens a step, {} in all\n",
                       t.global_batch, t.micro_batch, t.accumulation, mesh.dp,
                       group_digits(t.global_batch * t.sequence), group_digits(t.global_batch * t.sequence * t.steps));
    out += fmt::format("  schedule  {} steps; {}; {}; {}\n", t.steps, schedule_text(run),
                       every(t.eval_interval_steps, "evaluation"), every(run.checkpoint.interval_steps, "checkpoint"));
    for (const std::string& reason : decisions.reasons) {
        out += "  choice    " + reason + "\n";
    }
    for (const std::string& note : run.notes) {
        out += "  derived   " + note + "\n";
    }
    return out + ledger.table();
}

}  // namespace ogrom
