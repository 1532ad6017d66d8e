// Where the time of a step went on one rank, from its spans. Pure.
//
// Each moment counts once, for the first of these that holds then:
//   a wait, or a call that hands an operation to MPI   communication of its axis: exposed, whatever pass it stands in
//   data, optimizer, compute                           that cause
//   communication under way, and none of the above     exposed communication of its axis
// so communication behind which something is computed is not exposed. Of a pipeline the waits for other stages are
// bubble as far as the schedule has it by itself, the rest is communication of the pipeline. What all ranks agree on
// (norm, loss, votes) belongs to the widest thing that they wait for: other stages, else data ranks, else tensor ranks.
#pragma once
#include <span>
#include <vector>

#include "src/comm/mesh.h"
#include "src/io/study_point.h"
#include "src/pipeline/actions.h"
#include "src/pipeline/trace.h"

namespace ogrom {

// `begin`, `end`: of the step, in the spans' seconds; spans are cut there. `bubble_s`: idle time of this rank's stage
// in the schedule, from simulated_bubble; 0 without a pipeline.
StepCauses causes_of(std::span<const TraceSpan> spans, double begin, double end, const MeshShape& mesh,
                     double bubble_s);

// Idle seconds of each stage if the passes of the step took what they took and nothing else cost time; all 0 where
// spans are missing. `stages[s]`: the passes of one rank of stage s, in order of time.
std::vector<double> simulated_bubble(const ScheduleSpec& spec, std::span<const std::vector<PassSpan>> stages);

// Sums, and sums with a factor, of every field.
StepCauses add(const StepCauses& a, const StepCauses& b, double factor = 1);
// Names and members, in the order of the table.
struct CauseName {
    const char* name;  // as in the file
    double StepCauses::*member;
};
std::span<const CauseName> cause_names();

}  // namespace ogrom
