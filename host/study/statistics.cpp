#include "study/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.hpp"
#include "report/compare.hpp"
#include "report/student_t.hpp"

namespace wmtp {
namespace {

/// Linear between the values, as numpy.quantile.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * double(sorted.size() - 1);
  const auto below = size_t(at);
  if (below + 1 == sorted.size()) return sorted[below];
  return std::lerp(sorted[below], sorted[below + 1], at - double(below));
}

Interval bootstrap_interval(const std::vector<double>& values) {
  constexpr size_t resamples = 10'000;
  const uint64_t key = name_key("bootstrap", 0);
  std::vector<double> means(resamples);
  for (size_t i = 0; i < resamples; ++i) {
    for (size_t k = 0; k < values.size(); ++k) {
      const uint64_t drawn = philox(key, i, k)[0];
      means[i] += values[size_t(drawn * values.size() >> 32)] / double(values.size());
    }
  }
  std::ranges::sort(means);
  return {quantile(means, 0.025), quantile(means, 0.975)};
}

}  // namespace

PairedDifference paired_difference(const std::vector<double>& differences) {
  const MeanAndError of = mean_and_error(differences);
  PairedDifference found{of.count, of.mean, of.error * std::sqrt(double(of.count)), {}, {}, {}};
  constexpr double rounding = 1e-12;
  const bool is_constant = of.error <= rounding * std::fabs(of.mean);
  if (of.count < 2 || (is_constant && of.mean != 0)) return found;
  found.interval = interval_95(of);
  found.bootstrap = bootstrap_interval(differences);
  found.p = is_constant ? 1 : two_sided_p(of.mean / of.error, of.freedom);
  return found;
}

std::vector<double> holm(const std::vector<double>& p, int64_t tests) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return p[i]; });
  std::vector<double> corrected(p.size());
  double most = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    most = std::max(most, std::min(1.0, double(tests - int64_t(rank)) * p[order[rank]]));
    corrected[order[rank]] = most;
  }
  return corrected;
}

double smallest_difference(double deviation, int64_t pairs, int64_t tests) {
  return deviation * smallest_mean_shown(pairs, test_level / double(tests), wanted_power);
}

}  // namespace wmtp
