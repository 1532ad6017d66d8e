// Rates of a step. FLOPs per token: kernels/common/cost.h (causal pairs; the
// true vocabulary).
#pragma once
#include "kernels/common/cost.h"

#include "src/config/run.h"
#include "src/io/metrics.h"

namespace ogrom {

cost::Model cost_model(const ModelConfig& model, i64 sequence);

// Per token: what the device does, recomputation of every n-th layer counted.
double hardware_flops(const RunConfig& run);

// What a step took, on this rank.
struct StepTimes {
    double step_s = 0;  // data, forward, backward, exchange, update; no evaluation, no save
    double data_wait_s = 0, exposed_comm_s = 0;
    i64 bytes_sent = 0;
};

// Fills the rates of `row` from row.tokens and the times. `matmul_rate`:
// measured flop/s of this rank.
void set_rates(StepMetrics& row, const RunConfig& run, const StepTimes& times, double matmul_rate);

}  // namespace ogrom
