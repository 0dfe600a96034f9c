// `runs compare`: where runs differ, in what they were given and in what came of it.
//
// A word is a run's number, or a name: then it stands for the newest finished run of each seed under that name. Where
// one of them has several seeds, a figure is their mean and the standard error of the mean, and against the first word
// it is the mean of the differences within the same seed, with its standard error: what seeds do to both is not in it.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "core/report/table.hpp"
#include "core/runlog/log_reader.hpp"

namespace wmtp {

/// Mean, and the standard error of the mean (deviation with n - 1, over the root of n); the latter 0 for one value.
struct MeanOf {
  double mean = 0, error = 0;
  int64_t count = 0;
};
MeanOf mean_of(const std::vector<double>& values);

/// A row for each key of which the runs do not all have the same value: the key, then the value of each (null: none).
Table differing_params(const LogReader& log, const std::vector<int64_t>& runs);

/// Error(usage) for a run that is not in the log, and for fewer than two words. JSON is one object; CSV is refused.
void print_comparison(std::ostream& out, const LogReader& log, const std::vector<std::string>& words,
                      TableFormat format);

}  // namespace wmtp
