#include "report/student_t.hpp"

#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/tools/roots.hpp>
#include <cmath>

namespace wmtp {

using boost::math::complement;
using boost::math::students_t;

namespace {

double two_sided_t(double freedom, double alpha) { return quantile(complement(students_t(freedom), alpha / 2)); }

}  // namespace

double two_sided_95_t(double freedom) { return two_sided_t(freedom, 0.05); }

double two_sided_p(double t, double freedom) {
  return std::isinf(t) ? 0 : 2 * cdf(complement(students_t(freedom), std::fabs(t)));
}

double smallest_mean_shown(int64_t count, double alpha, double power) {
  const double freedom = double(count - 1), limit = two_sided_t(freedom, alpha);
  const auto missing_power = [&](double shift) {  // the mean in standard errors
    const boost::math::non_central_t moved(freedom, shift);
    return power - cdf(complement(moved, limit)) - cdf(moved, -limit);
  };
  std::uintmax_t steps = 200;
  const auto [low, high] = boost::math::tools::bracket_and_solve_root(
      missing_power, limit + 1, 2.0, false, boost::math::tools::eps_tolerance<double>(40), steps);
  return (low + high) / 2 / std::sqrt(double(count));
}

}  // namespace wmtp
