#include "src/train/announce.h"

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/train/evaluate.h"

namespace ogrom {
namespace {

void announce_data(const RunConfig& run, const Sampler& train, const Sampler* valid) {
    for (const Sampler* sampler : {&train, valid}) {
        if (sampler != nullptr) {
            for (const std::string& line : sampler->report()) {
                log_info("data: {}", line);
            }
        }
    }
    log_info("data: {}", train.coverage(run.train.steps, run.train.global_batch));
    if (valid != nullptr && evaluation_samples(*valid, run.train.eval_samples) < run.train.eval_samples) {
        log_info("data: an evaluation takes all {} held-out samples; train.eval_samples = {} asks for more",
                 evaluation_samples(*valid, run.train.eval_samples), run.train.eval_samples);
    }
}

}  // namespace

void announce_plan(const PlanTold& plan, const Sampler& train, const Sampler* valid) {
    if (plan.session.rank() != 0) {
        return;
    }
    announce_data(plan.run, train, valid);
    log_lines(plan_text(plan.run, plan.shape, plan.place.decisions, plan.place.ledger));
    log_info("device: {} ({}); matrix products at {:.4f} TFLOP/s", plan.device.is_gpu() ? "cuda" : "cpu",
             plan.device.reason, plan.place.matmul_rate / 1e12);
    if (plan.device.is_gpu() && plan.session.size() > 1) {
        log_info("transport: {}", plan.transport.reason);
    }
}

std::string nonfinite_text(i64 step, const StepResult& result) {
    if (result.overflow) {
        return fmt::format("step {}: overflow in fp16 with the loss scale {:.0f}, {:.0f} from now on", step,
                           result.loss_scale, result.loss_scale / 2);
    }
    const NonFiniteReport& report = result.nonfinite;
    const std::string where =
        report.found ? fmt::format("first in the gradient of {} on rank {}", report.parameter, report.rank)
                     : std::string("every rank's own gradient is finite: their sum or the loss overflowed");
    return fmt::format("step {}: not finite: loss {}, gradient norm {}; {}; weights and moments are those of step {}",
                       step, result.loss, result.norm, where, step - 1);
}

std::string stop_text(const NumericsConfig& numerics, const StepResult& result, i64 in_a_row) {
    if (result.overflow) {
        return "";
    }
    if (numerics.on_nonfinite == NonFinite::stop) {
        return " (numerics.on_nonfinite = \"stop\")";
    }
    return in_a_row > numerics.max_skipped_steps ? fmt::format(" ({} steps in a row, numerics.max_skipped_steps = {})",
                                                               in_a_row, numerics.max_skipped_steps)
                                                 : "";
}

}  // namespace ogrom
