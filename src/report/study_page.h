// The report of a scaling study: from points to a document.
#pragma once
#include <string>
#include <vector>

#include "src/report/document.h"
#include "src/report/figure.h"
#include "src/report/study.h"

namespace ogrom {

Document study_document(const Study& study);

// A few lines for a terminal: the overview.
std::string study_text(const Study& study);

enum class CurveOf { throughput, efficiency };
LineFigure curve_figure(const StudyGroup& group, StudyKind kind, CurveOf what, const std::string& prefix);
BarFigure cause_figure(const StudyGroup& group, StudyKind kind, const std::string& prefix);
LineFigure size_figure(const Study& study);

}  // namespace ogrom
