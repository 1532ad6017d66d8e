// Points of scaling studies joined: which belong to one curve, and what each is against the smallest of its curve.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "src/io/study_point.h"

namespace ogrom {

struct SourcedPoint {
    StudyPoint point;
    std::string path;
};

// Against the smallest run of the same curve, by throughput per rank: of a weak study (t_n / t_b), of a strong one
// (t_b / t_n) / (n / b). Low and high: the worst and the best repeat here against the best and the worst there.
struct Efficiency {
    double value = std::numeric_limits<double>::quiet_NaN(), low = value, high = value;
    i64 base_ranks = 0;  // 0: none is stated
};

struct SeriesPoint {
    StudyPoint point;
    Efficiency efficiency;
    [[nodiscard]] bool measured() const { return point.refused.empty(); }
    [[nodiscard]] bool counts() const { return measured() && !point.oversubscribed; }
};

// One layout, weak or strong, at one amount of work: points by ascending ranks.
struct Series {
    StudyKind kind = StudyKind::weak;
    std::string label;  // the layout; with batch or study where that alone tells curves apart
    std::vector<SeriesPoint> points;
    i64 base_ranks = 0;  // 0: no point counts
};

// What may stand in one chart: the same model, types and device.
struct StudyGroup {
    std::string title;
    StudyPoint sample;  // any of its points, one with figures where there is one
    std::vector<Series> series;
    std::vector<std::string> notes;  // what a reader must know before comparing
    [[nodiscard]] const char* unit() const { return sample.device == "cpu" ? "rank" : "GPU"; }
};

struct Study {
    std::string title;
    std::vector<StudyGroup> groups;
    std::vector<std::string> notes;
    i64 points = 0;
};

// Throws Error(usage) where two files hold the same point with different figures; the same figures twice are one point.
Study join_points(const std::vector<SourcedPoint>& points);

// Sums and means that several tables and charts show.
StepCauses mean_causes(const StudyPoint& point);
// The rank that worked most: step without exposed communication and bubble.
std::size_t slowest_rank(const StudyPoint& point);
double work_of(const StepCauses& causes);
inline constexpr std::size_t cause_count = 9;
std::vector<double> cause_values(const StepCauses& causes);  // in the order of cause_names
const std::vector<std::string>& cause_names();
// The largest of what is not compute, by name, with its share of the step in percent; "none" where all are 0.
std::string largest_loss(const StudyPoint& point);
double tflops_per_rank(const StudyPoint& point, double flops_per_token);

}  // namespace ogrom
