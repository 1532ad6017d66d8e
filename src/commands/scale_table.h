// The table that `ogrom scale` ends with, and the same as JSON.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/io/study_point.h"

namespace ogrom {

// A point against the smallest run of its kind and layout that has figures and is not oversubscribed.
struct ScaleRow {
    const StudyPoint* point = nullptr;
    double efficiency = 0;  // tokens/s per rank over those of the base; 0 = none is stated
    i64 base = 0;           // ranks of that run; 0 = there is none
    std::string loss_name;  // of the causes but compute the largest, as a mean over the ranks; empty = refused
    double loss_share = 0;  // of the step
};
std::vector<ScaleRow> scale_rows(std::span<const StudyPoint> points);
std::string scale_table(std::span<const StudyPoint> points);
std::string scale_json(std::span<const StudyPoint> points, const std::string& study, const std::string& folder);

}  // namespace ogrom
