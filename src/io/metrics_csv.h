// metrics.csv: first line "# ogrom metrics format=1", second the column names, then one row per step. Numbers in the
// shortest form that reads back to the same bits; valid_loss is empty where nothing was evaluated.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "src/io/metrics.h"

namespace ogrom {

// One column: name, unit, and how it is reached.
struct MetricsColumn {
    const char* name;
    const char* unit;
    enum class Kind { integer, real, flag, optional } kind;
    i64 StepMetrics::*integer = nullptr;
    double StepMetrics::*real = nullptr;
};
const std::vector<MetricsColumn>& metrics_columns();

std::string metrics_head();                        // the first two lines
std::string metrics_line(const StepMetrics& row);  // with its newline
// What can be read of a file that may be damaged.
struct MetricsFound {
    std::vector<StepMetrics> rows;
    std::string damage;  // the first line that is not as it should be, and why; empty: none
};
MetricsFound find_metrics_rows(const std::string& path);
// Throws Error(checkpoint) with `where` ("file:line") for a line that is not a row.
StepMetrics parse_metrics_line(std::string_view line, const std::string& where);

}  // namespace ogrom
