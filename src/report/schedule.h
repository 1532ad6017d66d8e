// The pipeline schedule of a traced step, simulated and measured side by side.
#pragma once
#include <string>

#include "src/pipeline/measured.h"

namespace ogrom {

// Writes RUN_FOLDER/report/schedule.svg and returns its path. Simulated: the same lists with each pass at its measured
// mean and free transfers, so that what differs is waiting.
std::string draw_schedule(const std::string& run_folder, const std::string& run_name, const MeasuredSchedule& measured);

}  // namespace ogrom
