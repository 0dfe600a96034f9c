// A study's results for people and programs: Markdown, CSV, JSON.
#pragma once

#include <ostream>

#include "study/analysis.hpp"

namespace wmtp {

/// A table of the primary metric for each budget, then one of the other metrics at the end, with a line that says what
/// the columns are.
void print_markdown(std::ostream& out, const Study& study, const StudyResults& results, const StudyAnalysis& analysis);

/// A row for each member, metric and budget.
Table analysis_table(const Study& study, const StudyAnalysis& analysis);

/// The definition, the results by member and seed, which add_results reads, and the rows of the analysis.
OrderedJson report_json(const Study& study, const StudyResults& results, const StudyAnalysis& analysis);

}  // namespace wmtp
