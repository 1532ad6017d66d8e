// Runs action lists on paper: when each pass would start and end if passes and transfers took the given times. The
// rules are those of execute with zero buffering. The step ends on all stages together, because the global gradient
// norm waits for the slowest one.
//
// Bubble of every stage with equal parts and free transfers, m >= 2 p (F, B, W: forward, input and weight half of a
// stage; under full recomputation B := B + F):
//   gpipe, one_f_one_b  (p - 1)(F + B + W)
//   interleaved         (p - 1)(F + B + W) / v
//   zero_bubble         (p - 1)(F + B - W)   where W <= F and W <= B
#pragma once
#include <span>
#include <vector>

#include "src/pipeline/actions.h"
#include "src/pipeline/trace.h"

namespace ogrom {

struct PassCosts {
    double forward = 0, backward_input = 0, backward_weight = 0;  // seconds; a whole backward is the sum of its halves
};

struct ScheduleCosts {
    std::vector<std::vector<PassCosts>> passes;  // [stage][chunk]
    double transfer = 0;                         // seconds of one boundary from stage to stage
    // [stage][n]: of the n-th pass of its list, where every pass has a time of its own; else empty.
    std::vector<std::vector<double>> own = {};
};

// Every chunk of every stage alike; `stage` is the cost of a whole stage, spread evenly over its chunks.
ScheduleCosts even_costs(const ScheduleSpec& spec, const PassCosts& stage, double transfer);
// Sum over the layers of each part: layers[stage][chunk] layers of `layer`, plus `head` on the last part.
ScheduleCosts layer_costs(std::span<const std::vector<i64>> layers, const PassCosts& layer, const PassCosts& head,
                          double transfer);

struct Simulation {
    std::vector<std::vector<PassSpan>> stages;  // in order of time
    double total = 0;                           // from the first pass to the last one's end, on any stage
    std::vector<double> bubble;                 // per stage: total minus its own work
};

// Throws Error(peer) with check_schedules' words when the lists cannot run to their end.
Simulation simulate(const ScheduleSpec& spec, std::span<const StageSchedule> stages, const ScheduleCosts& costs,
                    SchedulePurpose purpose = SchedulePurpose::training);

}  // namespace ogrom
