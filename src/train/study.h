// A scaling study inside one launch: the planned points one after the other, each on the first ranks of the world while
// the others rest, repeat by repeat over all points so that drift of the machine hits all alike.
// Comes in: planned points. Goes out: <folder>/points/<id>.json, rewritten after each repeat. Next: train/measure.cpp
#pragma once
#include <string>
#include <vector>

#include "src/comm/session.h"
#include "src/train/study_plan.h"

namespace ogrom {

enum class StudyResume {
    no,  // a folder with points is refused
    yes  // repeats that its points have are not made again; a point of another run file is refused
};

struct StudyOutcome {
    std::vector<StudyPoint> points;  // on rank 0: those that have a repeat or a refusal, in the order of the plan
    std::string stopped_by;          // a signal's name; empty: the study is complete
};

// Collective over all ranks of the launch. Throws Error(usage) for a folder that does not go with `resume`.
StudyOutcome run_study(Session& session, const StudyWish& wish, const std::vector<PlannedPoint>& planned,
                       StudyResume resume);

}  // namespace ogrom
