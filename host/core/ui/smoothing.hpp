// What is done to a curve before it is drawn: smoothing over all of its points, and then thinning to what a screen has.
// In this order: a mean over thinned points would change with the length of the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace wmtp {

/// The largest factor: with 0.999 a point still counts a tenth after 2,300 steps.
inline constexpr double most_smoothing = 0.999;

/// A curve of fewer finite points is drawn as it is: a mean over them would show values of long ago.
inline constexpr size_t fewest_smoothed = 50;

/// Exponential moving average: a point counts factor^d at a point d steps later, whatever lies between them, so that
/// the points of a sparse curve (a validation each hundred steps) keep their values under a factor that smooths a dense
/// one. The weights are divided by their sum, so that it does not begin at 0 (Kingma and Ba 2015, section 3). A value
/// that is not finite is passed over; the mean there is NaN. `steps` ascends. 0 <= factor <= most_smoothing.
std::vector<double> debiased_mean(const std::vector<double>& steps, const std::vector<double>& values, double factor);

/// What is drawn: the mean, or a curve of few points as it is, with NaN for what is not finite.
std::vector<double> smoothed(const std::vector<double>& steps, const std::vector<double>& values, double factor);

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
