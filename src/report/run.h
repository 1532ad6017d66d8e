// The report of one run, from what its folder has.
#pragma once
#include <string>
#include <vector>

#include "src/io/metrics.h"
#include "src/io/rank_times.h"
#include "src/report/document.h"
#include "src/report/figure.h"

namespace ogrom {

struct RunEvent {
    std::string time, host, phase, text;
    i64 rank = 0, step = 0, code = 0;
};

struct RunRecord {
    std::string name, folder;
    std::vector<StepMetrics> rows;
    std::vector<RankTimes> ranks;      // empty: not recorded
    std::vector<RunEvent> events;      // the last ones
    std::string provenance, run_file;  // texts; may be empty
    std::vector<std::string> notes;    // what is missing or damaged
};

// metrics.csv must be there (Error(data) with what would be right); whatever else is missing or damaged is a note.
RunRecord read_run(const std::string& folder);

Document run_document(const RunRecord& run);
std::string run_text(const RunRecord& run);  // a few lines for a terminal

// Rows as a chart takes them: at most `most` points, each the mean over as many steps.
struct Thinned {
    i64 steps_each = 1;
    std::vector<StepMetrics> rows;  // step: the last of each; validation losses are left out
};
Thinned thinned(const std::vector<StepMetrics>& rows, std::size_t most);

// Step times in bins of equal width; those far beyond the rest share the last one.
HistogramFigure step_histogram(const std::vector<StepMetrics>& rows);

}  // namespace ogrom
