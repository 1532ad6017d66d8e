// ranks.csv of a run folder: what each rank of the process that wrote it last did per step, so that a report can name
// the slow one. First line "# ogrom ranks format=1", second the column names, then one row for each rank.
#pragma once
#include <string>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

struct RankTimes {
    i64 rank = 0;
    std::string host;
    i64 first_step = 0, last_step = 0;  // counted; the first step of a process is not
    double step_s = 0;                  // mean
    double waited_s = 0;     // of it, mean: in calls that waited for other ranks; NaN on a GPU, where the device waits
    double data_wait_s = 0;  // of it, mean: for the next batch
    double longest_work_s = 0;  // step without waiting for others, the longest; NaN on a GPU
    i64 longest_step = 0;       // which step that was

    [[nodiscard]] double work_s() const { return step_s - waited_s; }
};

inline constexpr const char* rank_times_name = "ranks.csv";

std::string rank_times_line(const RankTimes& times);  // with its newline
// Whole or not at all, into `folder`.
void write_rank_times(const std::string& folder, const std::vector<RankTimes>& ranks);
// Throw Error(data) that names file and line.
std::vector<RankTimes> read_rank_times(const std::string& path);
std::vector<RankTimes> parse_rank_times(const std::string& text, const std::string& path);
RankTimes parse_rank_line(const std::string& line, const std::string& where);

}  // namespace ogrom
