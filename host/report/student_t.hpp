// Student's t distribution, for 95% intervals of means of few values.
#pragma once

namespace wmtp {

/// The t that a variable with these degrees of freedom (at least 1; Welch's are no integers) exceeds in absolute value
/// with probability 0.05: 12.706 for 1, 4.303 for 2, 1.960 for many.
double two_sided_95_t(double freedom);

}  // namespace wmtp
