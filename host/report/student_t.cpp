#include "report/student_t.hpp"

#include <cmath>
#include <numbers>

namespace wmtp {
namespace {

double density(double t, double freedom) {
  const double log_scale = std::lgamma((freedom + 1) / 2) - std::lgamma(freedom / 2);
  return std::exp(log_scale - (freedom + 1) / 2 * std::log1p(t * t / freedom)) / std::sqrt(freedom * std::numbers::pi);
}

/// The probability of 0 to `t`, by Simpson's rule.
double probability_up_to(double t, double freedom) {
  constexpr int parts = 400;
  const double width = t / parts;
  double sum = density(0, freedom) + density(t, freedom);
  for (int i = 1; i < parts; ++i) sum += (i % 2 == 1 ? 4 : 2) * density(i * width, freedom);
  return sum * width / 3;
}

}  // namespace

double two_sided_95_t(double freedom) {
  // Newton's method from the left: the probability is concave there, so that no step goes too far.
  double t = 1.9;
  for (int step = 0; step < 30; ++step) {
    const double missing = 0.475 - probability_up_to(t, freedom);
    t += missing / density(t, freedom);
    if (std::fabs(missing) < 1e-10) break;
  }
  return t;
}

}  // namespace wmtp
