// Student's t distribution, for means of few values: intervals, tests, and what a test can show (by Boost.Math).
#pragma once

#include <cstdint>

namespace wmtp {

/// The t that a variable with these degrees of freedom (above 0; Welch's are no integers) exceeds in absolute value
/// with probability 0.05: 12.706 for 1, 4.303 for 2, 1.960 for many.
double two_sided_95_t(double freedom);

/// The probability that a variable with these degrees of freedom exceeds `t` in absolute value; 0 for an infinite t.
double two_sided_p(double t, double freedom);

/// The smallest mean, in standard deviations of a value, that a two-sided test of the mean of `count` values (at least
/// 2) at the level `alpha` finds to differ from 0 with probability `power`.
double smallest_mean_shown(int64_t count, double alpha, double power);

}  // namespace wmtp
