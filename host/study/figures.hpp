// Figures of a study as SVG.
#pragma once

#include <string>

#include "study/analysis.hpp"

namespace wmtp {

/// The primary metric against tokens, operations and seconds: the mean over seeds of each member, with a band of its
/// 95% interval.
std::string curves_svg(const Study& study, const StudyResults& results);

/// The differences from the control by the primary metric, with their 95% intervals: a line for each member and budget.
std::string differences_svg(const Study& study, const StudyAnalysis& analysis);

}  // namespace wmtp
