// What differences paired by seed show: their mean, two 95% intervals, a p-value, and the correction for several tests.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace wmtp {

using Interval = std::pair<double, double>;

struct PairedDifference {
  int64_t pairs = 0;
  double mean = 0;
  double deviation = 0;  ///< of a difference, with n - 1
  // nullopt without two pairs, and where all differences are equal, but not 0: they show no noise to test against.
  std::optional<Interval> interval;   ///< 95%, by Student's t
  std::optional<Interval> bootstrap;  ///< 95%, percentiles of the means of 10,000 resamples
  std::optional<double> p;            ///< two-sided t test of a mean of 0
};

/// Of finite differences. The resamples are the same in every call.
PairedDifference paired_difference(const std::vector<double>& differences);

/// Holm's p-values for a family of so many tests (Scandinavian Journal of Statistics 6, 1979), in the order of `p`.
/// Those of the family that have no p count as 1. [tests >= p.size()]
std::vector<double> holm(const std::vector<double>& p, int64_t tests);

inline constexpr double test_level = 0.05, wanted_power = 0.8;

/// The smallest mean difference that so many pairs (at least 2) with this deviation show with wanted_power, if the
/// first of `tests` of Holm's correction has to show it.
double smallest_difference(double deviation, int64_t pairs, int64_t tests);

}  // namespace wmtp
