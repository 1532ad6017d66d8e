// One point of a scaling study: one layout on one number of ranks, measured. `ogrom scale` writes each into a file of
// its own, <study>/points/<id>.json, so that the results of a job array join by their folders; `ogrom report` reads
// them. Comes in: figures of train/study. Goes out: JSON, each field under its name here.
// Next: report.
#pragma once
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

enum class StudyKind {
    weak,   // fixed tokens per rank: the global batch grows with the ranks
    strong  // fixed global batch
};
std::string_view name_of(StudyKind kind);

struct Spread {
    double median = 0, low = 0, high = 0;  // low, high: the smallest and largest of the repeats' medians
};
double median_of(std::vector<double> values);  // of at least one
Spread spread_of(const std::vector<double>& medians);

// Where the time of a step went on one rank, seconds; the nine causes sum to `step`.
struct StepCauses {
    double compute = 0;
    double tensor_comm = 0, data_comm = 0, pipeline_comm = 0;  // exposed: nothing was computed meanwhile
    double bubble = 0;                                         // waits that the schedule of the pipeline has by itself
    double optimizer = 0, offload = 0, data_wait = 0;
    double other = 0;  // the rest; below 0 by the noise of clocks alone
    double step = 0;

    [[nodiscard]] double sum() const;
};

struct StudyLine {  // of the memory ledger of the rank that holds most
    std::string name, tier;
    i64 bytes = 0;
};
struct StudyTraffic {  // bytes that all ranks together sent in a step
    std::string axis;
    i64 bytes = 0;
};

struct StudyPoint {
    std::string id;     // "<kind>-<layout>-n<ranks>", a safe file name
    std::string study;  // name of the study
    StudyKind kind = StudyKind::weak;
    std::string layout;  // label, the same at all sizes
    std::string axis;    // that grows with the ranks: dp, tp, pp
    i64 ranks = 1, nodes = 1, ranks_per_node = 1;
    i64 pipeline = 1, data = 1, tensor = 1, zero = 0;
    std::string schedule;
    bool oversubscribed = false;  // more ranks than cores, or than GPUs: no efficiency is stated
    i64 threads_per_rank = 1;
    std::string device;  // "cpu", or the GPU's name
    std::string model;
    i64 parameters = 0, layers = 0, hidden = 0, heads = 0, sequence = 0, vocabulary = 0;
    std::string weights_dtype, recompute;
    i64 micro_batch = 0, accumulation = 0, global_batch = 0;
    i64 tokens_per_step = 0;                  // real targets of a measured step, the mean
    i64 warmup_steps = 0, steps = 0;          // of each repeat: left out, measured
    i64 skipped_steps = 0;                    // of all repeats: non-finite steps, left out of step_s
    std::vector<std::vector<double>> step_s;  // [repeat][step], seconds, of the slowest rank
    Spread tokens_per_s, step_median_s;
    double model_flops_per_token = 0, model_flops_square_per_token = 0, hardware_flops_per_token = 0;
    double matmul_rate = 0;          // flop/s of one rank's device, measured
    std::vector<StepCauses> causes;  // by rank, means over the measured steps
    std::vector<StudyLine> ledger;
    std::vector<StudyTraffic> traffic;
    double predicted_step_s = std::numeric_limits<double>::quiet_NaN();  // NaN (null in JSON): no plan predicted it
    std::string
        refused;  // not empty: why this layout cannot run at this size; step_s and what follows from it is absent
    std::string machine, host, commit, date, command;
    std::string run_file;                                       // resolved, TOML
    std::vector<std::pair<std::string, std::string>> versions;  // of libraries
};

inline constexpr i64 study_point_format = 1;
inline constexpr i64 study_point_limit = i64{64} << 20;  // bytes of a file that is read
inline constexpr const char* study_points_folder = "points";

// "weak-dp_zero1-n4": what is no letter, digit, dot, plus or minus becomes an underscore.
std::string study_point_id(StudyKind kind, std::string_view layout, i64 ranks);

std::string to_text(const StudyPoint& point);
// Throws Error(data) that names `path`, the key, what was wrong and what would be right. Strict: every key is there,
// none is unknown, figures are finite, causes sum to the step.
StudyPoint parse_study_point(const std::string& text, const std::string& path);
StudyPoint read_study_point(const std::string& path);
// FOLDER/points/ID.json, whole or not at all.
void write_study_point(const std::string& folder, const StudyPoint& point);
std::string study_point_path(const std::string& folder, const std::string& id);

}  // namespace ogrom
