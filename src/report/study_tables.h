// The tables of a scaling study.
#pragma once
#include <vector>

#include "src/report/study.h"
#include "src/report/table.h"

namespace ogrom {

// Of a group of the study: `prefix` begins every id. Throughput and efficiency of one kind of study.
Table throughput_table(const StudyGroup& group, StudyKind kind, const std::string& prefix);
Table flops_table(const StudyGroup& group, const std::string& prefix);
Table causes_table(const StudyGroup& group, const std::string& prefix);  // mean of the ranks, and the slowest
Table ranks_table(const StudyGroup& group, const std::string& prefix);   // every rank
Table memory_table(const StudyGroup& group, const std::string& prefix);  // by tier
Table ledger_table(const StudyGroup& group, const std::string& prefix);  // by line
Table traffic_table(const StudyGroup& group, const std::string& prefix);
Table predicted_table(const StudyGroup& group, const std::string& prefix);  // no rows where no plan predicted
Table refused_table(const StudyGroup& group, const std::string& prefix);

// Of the whole study: one row for each curve, and one for each point with all its figures.
Table overview_table(const Study& study);
Table points_table(const Study& study);
Table sizes_table(const Study& study);  // throughput against model size; no rows with one size alone

}  // namespace ogrom
