// One layout on the ranks of a session, measured for a scaling study: warm-up steps, then steps whose times, causes,
// memory and traffic are kept. Nothing is written, evaluated or saved.
// Comes in: a resolved run and a session (often a part of the launched ranks). Goes out: figures on rank 0. Next:
// train/study.cpp
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "src/comm/session.h"
#include "src/config/run.h"
#include "src/io/study_point.h"

namespace ogrom {

inline constexpr i64 most_measured_steps = 1000;

struct MeasureSteps {
    i64 warmup = 2, steps = 10;
};

// One repeat. `point` holds what the run and the machine say of themselves (all but id, study, kind, layout, axis) and
// this repeat's figures: one row of step_s, causes, traffic.
struct Repeat {
    StudyPoint point;
    bool stopped = false;  // by a signal, before the last step: no figures
    i64 traced_steps = 0;  // whose spans were complete: causes are means over them
};

// Collective; complete on rank 0. A layout that these ranks cannot run is told in point.refused.
Repeat measure(Session& session, const RunConfig& run, const MeasureSteps& steps);

// `point` with one more repeat: rows joined, means by their number of steps, spreads anew.
void join_repeat(StudyPoint& point, const StudyPoint& repeat);

// What the run file alone says of a point; also of a refused one.
StudyPoint describe_point(const RunConfig& run);

}  // namespace ogrom
