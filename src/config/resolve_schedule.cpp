// The schedule in step numbers (B53): warm-up end, decay end, evaluations and saves, checked and printed at start.
#include <algorithm>
#include <fmt/format.h>

#include "kernels/common/fault.h"

#include "src/base/text.h"
#include "src/config/resolve.h"

namespace ogrom {

namespace {

void derive_decay(Resolution& r) {
    OptimizerConfig& o = r.run.optimizer;
    if (o.schedule == ScheduleKind::constant) {
        return;
    }
    if (!r.given("optimizer.min_lr")) {
        o.min_lr = o.lr / 10;
        r.derived["optimizer.min_lr"] = "= lr / 10";
    } else if (r.sound({"optimizer.lr", "optimizer.min_lr"}) && o.min_lr > o.lr) {
        r.fault("optimizer.min_lr",
                fmt::format("{} is above optimizer.lr {}; would be right: at most lr", o.min_lr, o.lr));
    }
    if (!r.given("optimizer.decay_steps")) {
        const bool wsd = o.schedule == ScheduleKind::wsd;
        o.decay_steps = wsd ? std::max<i64>(r.run.train.steps / 10, 1) : r.run.train.steps;
        r.derived["optimizer.decay_steps"] = wsd ? "a tenth of train.steps" : "= train.steps";
    }
}

void check_schedule(Resolution& r) {
    const OptimizerConfig& o = r.run.optimizer;
    const i64 steps = r.run.train.steps;
    if (o.warmup_steps > steps && !fault_active("config_warmup")) {
        r.fault("optimizer.warmup_steps",
                fmt::format("{} optimizer steps of warm-up in a run of train.steps {}: lr would never reach its peak; "
                            "would be right: at most {}",
                            o.warmup_steps, steps, steps));
    } else if (o.schedule == ScheduleKind::wsd && o.warmup_steps + o.decay_steps > steps) {
        r.fault(
            "optimizer.decay_steps",
            fmt::format("warmup_steps {} + decay_steps {} = {} is more than train.steps {}; would be right: "
                        "decay_steps at most {}",
                        o.warmup_steps, o.decay_steps, o.warmup_steps + o.decay_steps, steps, steps - o.warmup_steps));
    } else if ((o.schedule == ScheduleKind::cosine || o.schedule == ScheduleKind::linear) &&
               r.given("optimizer.decay_steps") && o.decay_steps <= o.warmup_steps) {
        r.fault("optimizer.decay_steps",
                fmt::format("the decay would end at step {}, before or at the end of the warm-up at step {}; would be "
                            "right: more than {}, up to train.steps {}",
                            o.decay_steps, o.warmup_steps, o.warmup_steps, steps));
    }
}

// "10, 20, 30, ..., 100"
std::string steps_text(i64 interval, i64 steps, bool at_end) {
    std::vector<std::string> shown;
    const i64 count = interval > 0 ? steps / interval : 0;
    for (i64 i = 1; i <= std::min<i64>(count, 3); ++i) {
        shown.push_back(fmt::format("{}", i * interval));
    }
    if (count > 4) {
        shown.emplace_back("...");
    }
    if (count > 3) {
        shown.push_back(fmt::format("{}", count * interval));
    }
    if (at_end && (interval == 0 || steps % interval != 0)) {
        shown.push_back(fmt::format("{} (end)", steps));
    }
    return shown.empty() ? "never" : join(shown, ", ");
}

void note_schedule(Resolution& r) {
    const RunConfig& run = r.run;
    const OptimizerConfig& o = run.optimizer;
    const i64 steps = run.train.steps;
    std::string rate = fmt::format("schedule: {} optimizer steps; ", steps);
    rate += o.warmup_steps > 0 ? fmt::format("warm-up ends at step {} (lr {})", o.warmup_steps, o.lr)
                               : fmt::format("no warm-up (lr {})", o.lr);
    switch (o.schedule) {
        case ScheduleKind::constant:
            rate += "; then constant";
            break;
        case ScheduleKind::wsd:
            rate += fmt::format("; constant until step {}, linear decay to {} at step {}", steps - o.decay_steps,
                                o.min_lr, steps);
            break;
        case ScheduleKind::cosine:
        case ScheduleKind::linear:
            rate += fmt::format("; {} decay ends at step {} (lr {})",
                                o.schedule == ScheduleKind::cosine ? "cosine" : "linear", o.decay_steps, o.min_lr);
            break;
    }
    if (o.schedule != ScheduleKind::constant && o.decay_steps > steps) {
        rate += ", after the end of the run";
    }
    r.note(rate);
    const bool validates = !run.data.valid.empty() || run.data.valid_fraction > 0;
    r.note("evaluation at steps: " +
           (validates ? steps_text(run.train.eval_interval_steps, steps, true) : "never (no validation data)"));
    r.note("saves at steps: " + steps_text(run.checkpoint.interval_steps, steps, run.checkpoint.at_end));
}

}  // namespace

void resolve_schedule(Resolution& r) {
    if (!r.sound(
            {"train.steps", "optimizer.lr", "optimizer.schedule", "optimizer.warmup_steps", "optimizer.decay_steps"})) {
        return;
    }
    derive_decay(r);
    check_schedule(r);
    if (r.sound({"train.eval_interval_steps", "checkpoint.interval_steps", "optimizer.min_lr"})) {
        note_schedule(r);
    }
}

}  // namespace ogrom
