// A scaling study as a list of points: each layout at each number of ranks, resolved before anything runs. Pure but for
// the resolver that it is given.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "src/config/run.h"
#include "src/io/study_point.h"
#include "src/train/measure.h"

namespace ogrom {

struct StudyLayout {
    std::string label;
    std::vector<std::string> overrides;  // section.key=value
    std::string axis = "dp";             // that grows with the ranks: dp, tp, pp
};

struct StudyWish {
    std::string name, folder;
    std::vector<StudyKind> kinds;
    std::vector<i64> ranks;  // ascending, each once
    std::vector<StudyLayout> layouts;
    std::vector<std::string> overrides;  // of all layouts, before their own
    MeasureSteps steps;
    i64 repeats = 3;
};

struct PlannedPoint {
    std::string id;
    StudyKind kind = StudyKind::weak;
    std::string layout, axis;
    i64 ranks = 1;
    RunConfig run;        // resolved, unless refused
    std::string refused;  // why this layout cannot run at this size
};

// A run file with overrides for a number of ranks; 0 ranks: with the mesh that the file itself names.
using ResolveRun = std::function<RunConfig(const std::vector<std::string>& overrides, i64 ranks)>;

// "NAME: key=value key=value ...", where axis=dp|tp|pp may stand among the keys; `axis` where it does not. Throws
// Error(usage).
StudyLayout parse_study_layout(const std::string& text, const std::string& axis);
// One per ZeRO stage: what --axis zero compares.
std::vector<StudyLayout> zero_layouts();

// The global batch is that of the run file at the smallest number of ranks, with the first layout that can run there;
// weak studies multiply it by the ranks. A data rank's share is cut into micro-batches of the size that the run file
// has, or the largest below that comes out even.
// Points in the order of kinds, layouts, ranks. Throws Error(usage): a fault of the run file or of a layout's keys
// whatever the size, two layouts of one id, no point that can run.
std::vector<PlannedPoint> plan_study(const StudyWish& wish, const ResolveRun& resolve);

}  // namespace ogrom
