#include "optimizer/guard.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/text.hpp"

namespace wmtp {
namespace {

double mean_of(const std::deque<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double standard_deviation(const std::deque<double>& values, double mean) {
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / double(values.size()));
}

}  // namespace

Guard::Verdict Guard::verdict(std::optional<double> loss, double gradient_norm) const {
  if (!std::isfinite(loss.value_or(0)) || !std::isfinite(gradient_norm)) return {"not finite", ""};
  if (config_.grad_norm > 0 && gradient_norm > config_.grad_norm)
    return {printed("gradient norm %.4g exceeds guard.grad_norm = %.4g", gradient_norm, config_.grad_norm),
            "guard.grad_norm"};
  if (loss && int64_t(window_.size()) == config_.window) {
    const double mean = mean_of(window_);
    // Of signed weights the mean may be 0 or less, which has no multiple that a spike exceeds.
    if (config_.loss_ratio > 0 && mean > 0 && *loss > config_.loss_ratio * mean)
      return {printed("loss spike: %.4g exceeds guard.loss_ratio = %.4g times the mean %.4g of %zu steps", *loss,
                      config_.loss_ratio, mean, window_.size()),
              "guard.loss_ratio"};
    const double deviation = standard_deviation(window_, mean);
    if (config_.loss_spike > 0 && *loss > mean + std::max(config_.loss_spike * deviation, config_.spike_floor))
      return {printed("loss spike: %.4g exceeds the mean %.4g of %zu steps by more than guard.loss_spike = %.4g "
                      "deviations of %.4g and guard.spike_floor = %.4g",
                      *loss, mean, window_.size(), config_.loss_spike, deviation, config_.spike_floor),
              "guard.loss_spike"};
  }
  return {};
}

std::string Guard::judge(std::optional<double> loss, double gradient_norm) {
  Verdict verdict = this->verdict(loss, gradient_norm);
  if (!verdict.reason.empty()) {
    ++in_a_row_;
    if (!verdict.key.empty() && std::exchange(is_first_, false))
      verdict.reason += "; skipped steps do not train on their data (" + verdict.key + " = 0 disables this limit)";
    return verdict.reason;
  }
  in_a_row_ = 0;
  if (!loss) return "";
  window_.push_back(*loss);
  if (int64_t(window_.size()) > config_.window) window_.pop_front();
  return "";
}

void Guard::restore(std::deque<double> window, int64_t in_a_row) {
  window_ = std::move(window);
  in_a_row_ = in_a_row;
}

}  // namespace wmtp
