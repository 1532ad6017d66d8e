#include "src/train/throughput.h"

#include "src/plan/linears.h"

namespace ogrom {

// With full recomputation of every n-th layer: that share of it.
double hardware_flops(const RunConfig& run) {
    const cost::Model model = cost_model(run.model, run.train.sequence);
    const double none = cost::hardware_flops(model, Recompute::none);
    const double all = cost::hardware_flops(model, run.train.recompute);
    const i64 layers = ceil_div(run.model.layers, run.train.recompute_interval);
    return none + (all - none) * static_cast<double>(layers) / static_cast<double>(run.model.layers);
}

void set_rates(StepMetrics& row, const RunConfig& run, const StepTimes& times, double matmul_rate) {
    const cost::Model model = cost_model(run.model, run.train.sequence);
    row.step_s = times.step_s;
    row.data_wait_s = times.data_wait_s;
    row.exposed_comm_s = times.exposed_comm_s;
    row.bytes_sent = times.bytes_sent;
    if (times.step_s <= 0) {
        return;
    }
    row.tokens_per_s = static_cast<double>(row.tokens) / times.step_s;
    // The tokens of a data rank are the work of its tensor ranks and stages
    // together.
    const double data_tokens = static_cast<double>(run.train.micro_batch * run.train.accumulation * run.train.sequence);
    const double rank_tokens = data_tokens / static_cast<double>(run.parallel.tensor * run.parallel.pipeline);
    const double tera_tokens = rank_tokens / times.step_s / 1e12;
    row.model_tflops = tera_tokens * cost::model_flops(model);
    row.model_tflops_square = tera_tokens * cost::model_flops_square(model);
    row.hardware_tflops = tera_tokens * hardware_flops(run);
    row.fraction_of_sgemm = matmul_rate > 0 ? row.model_tflops * 1e12 / matmul_rate : 0;
}

}  // namespace ogrom
