// metrics.h5: one dataset per column under /metrics, one value per step; a missing validation loss is NaN. Both on the
// I/O thread (io/io_thread.h); faults are Error(checkpoint).
#pragma once
#include <string>
#include <vector>

#include "src/io/metrics.h"

namespace ogrom {

// Built in memory, then put in place as a whole.
void write_metrics_h5(const std::string& path, const std::vector<StepMetrics>& rows);
std::vector<StepMetrics> read_metrics_h5(const std::string& path);

}  // namespace ogrom
