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

/// Higher for a number that counts in larger units: 1000 > 500 > 200 > 100 > 50 > 7.
int roundness(double step) {
  auto number = int64_t(step);
  if (number == 0) return std::numeric_limits<int>::max();
  int round = 0;
  for (; number % 10 == 0; number /= 10) round += 3;
  return round + (number % 5 == 0 ? 2 : number % 2 == 0 ? 1 : 0);
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
  return debiased_mean(steps, values, can_be_smoothed(values) ? factor : 0);
}

bool can_be_smoothed(const std::vector<double>& values) {
  const auto finite = std::count_if(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  return size_t(finite) >= min_points_to_smooth;
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

std::vector<double> shared_steps(const std::vector<std::span<const double>>& curves, size_t cells) {
  const auto is_long = [&](const std::span<const double>& steps) { return steps.size() > 2 * cells; };
  if (std::none_of(curves.begin(), curves.end(), is_long)) return {};
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto& steps : curves) {
    if (steps.empty()) continue;
    low = std::min(low, steps.front());
    high = std::max(high, steps.back());
  }
  const Window window{low, high, cells};
  std::vector<double> shared;
  for (const auto& steps : curves) {
    if (!is_long(steps)) {
      shared.insert(shared.end(), steps.begin(), steps.end());
      continue;
    }
    for (size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
      const size_t cell = cell_of(steps[begin], window);
      double roundest = steps[begin];
      for (; end < steps.size() && cell_of(steps[end], window) == cell; ++end)
        if (roundness(steps[end]) > roundness(roundest)) roundest = steps[end];
      shared.push_back(roundest);
    }
  }
  std::sort(shared.begin(), shared.end());
  shared.erase(std::unique(shared.begin(), shared.end()), shared.end());
  return shared;
}

std::vector<size_t> with_steps(std::vector<size_t> kept, const std::vector<double>& steps,
                               const std::vector<double>& values, const std::vector<double>& wanted) {
  if (wanted.empty()) return kept;
  const size_t drawn = kept.size();
  for (auto step = steps.begin(); const double one : wanted) {
    step = std::lower_bound(step, steps.end(), one);
    if (step == steps.end()) break;
    const auto place = size_t(step - steps.begin());
    if (*step == one && std::isfinite(values[place])) kept.push_back(place);
  }
  std::inplace_merge(kept.begin(), kept.begin() + ptrdiff_t(drawn), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  return kept;
}

double usual_distance(const std::vector<double>& steps) {
  if (steps.size() < 2) return 0;
  std::vector<double> distances;
  for (size_t i = 1; i < steps.size(); ++i) distances.push_back(steps[i] - steps[i - 1]);
  const auto middle = distances.begin() + ptrdiff_t(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  return *middle;
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
