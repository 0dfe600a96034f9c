// `runs compare`: differences between runs, in configuration and metrics.
//
// A word is a run id, a name, which selects the newest finished run of each seed, or the name of a sweep, which selects
// the names of its runs. With several seeds, values are means over them with standard errors, and a difference from the
// first word is the mean difference within the same seed, which removes the effect of the seed; of words that share
// fewer than two seeds, the difference of the means. It has its 95% interval by Student's t (without pairs: Welch's),
// or the words "not distinguishable" where that contains 0.
// Differences are only taken between equal quantities: not of a training loss with other weights, nor of a mean over
// another number of heads. The page follows the same rule (quantity_of).
#pragma once

#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "log/log_reader.hpp"
#include "report/table.hpp"

namespace wmtp {

/// Mean and standard error (deviation with n - 1, divided by the square root of n); the error of one value is 0.
struct MeanAndError {
  double mean = 0, error = 0;
  int64_t count = 0;
  double freedom = 0;  ///< degrees of freedom of the error; 0: of one value, or none
};
MeanAndError mean_and_error(const std::vector<double>& values);
/// The mean of `a` less that of `b`, of values without pairs, with Welch's degrees of freedom; `count` is of both.
MeanAndError welch_difference(const MeanAndError& a, const MeanAndError& b);
/// The 95% interval of the mean; nullopt without degrees of freedom.
std::optional<std::pair<double, double>> interval_95(const MeanAndError& of);
/// "0.25 ± 0.01", "0.25" for one value, "-" for none.
std::string with_error(const MeanAndError& of, bool signed_number = false);

/// What a metric measures in a run with these options: two runs measure the same if the texts are equal. "" for a
/// metric that is the same quantity in all runs.
std::string quantity_of(const std::string& metric, const std::map<std::string, std::string>& params);
/// Whether quantity_of(metric, ...) is not always "".
bool has_quantities(std::string_view metric);
/// "the weights or the heads differ; compare valid/ce_head_1"
extern const char* const why_no_difference;
/// Those of `metrics` that do not measure the same in all of the runs.
std::vector<std::string> incomparable(const LogReader& log, const std::vector<int64_t>& runs,
                                      const std::vector<std::string>& metrics);

/// A row per key whose values differ: the key, then the value of each run (null: none).
Table differing_params(const LogReader& log, const std::vector<int64_t>& runs);

struct ComparisonRequest {
  std::vector<std::string> words;
  std::string baseline{};  ///< the word that the others are compared with; "": the first
  bool as_json = false;
  bool all = false;      ///< the text also shows time/ and perf/
  size_t columns = 120;  ///< the width of the text, which is a table for as many words as fit
};

/// Error(usage) for a run that is not in the log, for fewer than two runs or names, and for a baseline of several
/// names. The text shows validation first. JSON is one object with all metrics.
void print_comparison(std::ostream& out, const LogReader& log, const ComparisonRequest& request);

}  // namespace wmtp
