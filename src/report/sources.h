// What `ogrom report` was given: a study, parts of studies, or a run, told apart by content.
#pragma once
#include <string>
#include <vector>

#include "src/report/study.h"

namespace ogrom {

struct ReportSources {
    std::vector<SourcedPoint> points;
    std::string run_folder;      // not empty: a run, and no points
    std::string default_output;  // where the report goes unless the user says
    std::vector<std::string> notes;
};

// A folder with metrics.csv (or that file) is a run; one with points/ a study; one whose folders have points/ is all of
// them; any other file is a point. Throws Error(usage) for what is none of these and for what cannot stand in one
// report; Error(data) names a file that is damaged; Error(checkpoint) one that is not there or cannot be read.
ReportSources find_sources(const std::vector<std::string>& paths);

}  // namespace ogrom
