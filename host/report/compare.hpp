// `runs compare`: differences between runs, in configuration and metrics.
//
// A word is a run id, a name, which selects the newest finished run of each seed, or the name of a sweep, which selects
// the names of its runs. With several seeds, values are means over them with standard errors, and a difference from the
// first word is the mean difference within the same seed with its standard error, which removes the effect of the seed.
// Differences are only taken between equal quantities: not of a training loss with other weights, nor of a mean over
// another number of heads.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "log/log_reader.hpp"
#include "report/table.hpp"

namespace wmtp {

/// Mean and standard error (deviation with n - 1, divided by the square root of n); the error of one value is 0.
struct MeanAndError {
  double mean = 0, error = 0;
  int64_t count = 0;
};
MeanAndError mean_and_error(const std::vector<double>& values);
/// "0.25 ± 0.01", "0.25" for one value, "-" for none.
std::string with_error(const MeanAndError& of, bool signed_number = false);

/// A row per key whose values differ: the key, then the value of each run (null: none).
Table differing_params(const LogReader& log, const std::vector<int64_t>& runs);

/// Error(usage) for a run that is not in the log, for fewer than two runs or names, and for CSV. The text shows
/// validation first, and time/ and perf/ only if `all`. JSON is one object with all metrics.
void print_comparison(std::ostream& out, const LogReader& log, const std::vector<std::string>& words,
                      TableFormat format, bool all = false);

}  // namespace wmtp
