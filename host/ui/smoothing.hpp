// What is done to a curve before it is drawn: smoothing over all of its points, and then thinning to what a screen has.
// In this order: a mean over thinned points would change with the length of the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace wmtp {

/// The largest factor: with 0.999 a point still counts a tenth after 2,300 steps.
inline constexpr double most_smoothing = 0.999;

/// Exponential moving average, divided by 1 - factor^n so that it does not begin at 0 (Kingma and Ba 2015, section 3),
/// n being the finite values so far. A value that is not finite is passed over; the mean there is NaN.
/// 0 <= factor <= most_smoothing.
std::vector<double> debiased_mean(const std::vector<double>& values, double factor);

/// The part of a curve that is looked at.
struct Window {
  double from = 0, to = 0;  ///< of x, both in it
  size_t cells = 800;       ///< columns of the screen
};

/// Indices, in order, of at most two points for each of the window's cells: where y is least and where it is greatest;
/// and of the first and last point in the window, and its neighbours outside it, to which the line goes on. Points that
/// are not finite are left out. All points of the window where they are no more than that. `x` ascends.
std::vector<size_t> thinned(const std::vector<double>& x, const std::vector<double>& y, const Window& window);

/// Indices of the values that are not finite: the first of each kind (NaN, inf, -inf) in each cell of the window.
std::vector<size_t> not_finite(const std::vector<double>& x, const std::vector<double>& y, const Window& window);

}  // namespace wmtp
