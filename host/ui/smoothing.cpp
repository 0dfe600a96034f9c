#include "ui/smoothing.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace wmtp {
namespace {

size_t cell_of(double x, const Window& window) {
  const double width = window.to - window.from;
  if (width <= 0) return 0;
  const double place = (x - window.from) / width * double(window.cells);
  return std::min(size_t(std::max(place, 0.0)), window.cells - 1);
}

size_t kind_of_value(double value) { return std::isnan(value) ? 0 : value > 0 ? 1 : 2; }

}  // namespace

std::vector<double> debiased_mean(const std::vector<double>& steps, const std::vector<double>& values, double factor) {
  std::vector<double> means;
  means.reserve(values.size());
  double sum = 0, weight = 0, last = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      means.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    const double faded = weight == 0 ? 0 : std::pow(factor, steps[i] - last);
    sum = faded * sum + values[i];
    weight = faded * weight + 1;
    last = steps[i];
    means.push_back(sum / weight);
  }
  return means;
}

std::vector<double> smoothed(const std::vector<double>& steps, const std::vector<double>& values, double factor) {
  const auto finite = std::count_if(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  return debiased_mean(steps, values, size_t(finite) < min_points_to_smooth ? 0 : factor);
}

std::vector<size_t> downsampled(const std::vector<double>& x, const std::vector<double>& y, const Window& window) {
  std::vector<size_t> inside;
  size_t before = x.size(), after = x.size();
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(y[i])) continue;
    if (x[i] < window.from) {
      before = i;
    } else if (x[i] > window.to) {
      after = i;
      break;
    } else {
      inside.push_back(i);
    }
  }
  std::vector<size_t> kept;
  if (before < x.size()) kept.push_back(before);
  if (inside.size() <= 2 * window.cells) {
    std::copy(inside.begin(), inside.end(), std::back_inserter(kept));
  } else {
    const auto keep = [&](size_t i) {
      if (kept.empty() || kept.back() != i) kept.push_back(i);
    };
    keep(inside.front());
    for (size_t begin = 0; begin < inside.size();) {
      const size_t cell = cell_of(x[inside[begin]], window);
      size_t least = inside[begin], greatest = inside[begin], end = begin;
      for (; end < inside.size() && cell_of(x[inside[end]], window) == cell; ++end) {
        if (y[inside[end]] < y[least]) least = inside[end];
        if (y[inside[end]] > y[greatest]) greatest = inside[end];
      }
      keep(std::min(least, greatest));
      keep(std::max(least, greatest));
      begin = end;
    }
    keep(inside.back());
  }
  if (after < x.size()) kept.push_back(after);
  return kept;
}

std::vector<size_t> not_finite(const std::vector<double>& x, const std::vector<double>& y, const Window& window) {
  std::vector<size_t> kept;
  constexpr size_t none = std::numeric_limits<size_t>::max();
  size_t last_cell[] = {none, none, none};  // by kind
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isfinite(y[i]) || x[i] < window.from || x[i] > window.to) continue;
    const size_t cell = cell_of(x[i], window);
    size_t& last = last_cell[kind_of_value(y[i])];
    if (last != cell) kept.push_back(i);
    last = cell;
  }
  return kept;
}

}  // namespace wmtp
