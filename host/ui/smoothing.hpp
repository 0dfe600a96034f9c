// Prepares a curve for drawing: smooths all its points, then thins it to the resolution of the screen. In this order,
// because a mean over downsampled points would change with the length of the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace wmtp {

/// The largest factor: with 0.999, the weight of a point is a tenth after 2,300 steps.
inline constexpr double max_smoothing = 0.999;

/// Curves with fewer finite points are not smoothed: the mean would show outdated values.
inline constexpr size_t min_points_to_smooth = 50;

/// Exponential moving average: a point's weight d steps later is factor^d, independent of the points in between, so
/// that a sparse curve (a validation every hundred steps) keeps its values with a factor that smooths a dense one. The
/// weights are normalised, so that the mean does not start at 0 (Kingma and Ba 2015, section 3). Values that are not
/// finite are skipped; the mean there is NaN. `steps` ascends. 0 <= factor <= max_smoothing.
std::vector<double> debiased_mean(const std::vector<double>& steps, const std::vector<double>& values, double factor);

/// The mean, or the values themselves if there are few points, with NaN for values that are not finite.
std::vector<double> smoothed(const std::vector<double>& steps, const std::vector<double>& values, double factor);

/// Whether there are enough points for smoothed().
bool can_be_smoothed(const std::vector<double>& values);

/// The visible part of a curve.
struct Window {
  double from = 0, to = 0;  ///< of x, inclusive
  size_t cells = 800;       ///< columns of the screen
};

/// Indices, in order, of at most two points per cell of the window: the minimum and the maximum of y; of the first and
/// last point in the window; and of its neighbours outside, to which the line continues. All points if there are no
/// more. Skips points that are not finite. `x` ascends.
std::vector<size_t> downsampled(const std::vector<double>& x, const std::vector<double>& y, const Window& window);

/// Steps that several curves keep beside the points of downsampled(), so that differences and means, which are taken at
/// equal steps, have points: all steps of a curve with at most two points per cell; of another one the roundest step in
/// each cell (100 rather than 97). Empty if no curve has more points. `curves` are the steps in the window.
std::vector<double> shared_steps(const std::vector<std::span<const double>>& curves, size_t cells);

/// `kept` and the finite points at these steps, in order. All vectors ascend.
std::vector<size_t> with_steps(std::vector<size_t> kept, const std::vector<double>& steps,
                               const std::vector<double>& values, const std::vector<double>& wanted);

/// The most common distance between neighbours, 0 for less than two steps: of points that are comparable after
/// smoothing.
double usual_distance(const std::vector<double>& steps);

/// Indices of values that are not finite: the first of each kind (NaN, inf, -inf) in each cell of the window.
std::vector<size_t> not_finite(const std::vector<double>& x, const std::vector<double>& y, const Window& window);

}  // namespace wmtp
