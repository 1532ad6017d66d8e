// Pipeline schedules drawn as a self-contained SVG: one panel per schedule (simulated above measured), one row per
// stage, all panels on the same time axis. Passes are told apart in black and white by hatch and letter; light and dark
// colours follow the reader's setting.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/pipeline/trace.h"

namespace ogrom {

struct TimelinePanel {
    std::string caption;                        // "simulated", "measured, step 12"
    std::vector<std::vector<PassSpan>> stages;  // seconds; drawn from the panel's first pass
};

// Every pass is one <g class="pass ..."> whose <title> names panel, stage, pass, micro-batch, chunk and times. Behind
// each row stands the stage's idle share between the panel's first and last pass. Panels without a pass keep their
// rows.
std::string draw_timeline(const std::string& title, std::span<const TimelinePanel> panels);

}  // namespace ogrom
