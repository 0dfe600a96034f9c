#include "train/guard.hpp"

#include <cmath>
#include <numeric>

#include "base/text.hpp"

namespace wmtp {

std::string Guard::verdict(double loss, double gradient_norm) const {
  if (!std::isfinite(loss) || !std::isfinite(gradient_norm)) return "not finite";
  if (config_.grad_norm > 0 && gradient_norm > config_.grad_norm)
    return printed("gradient norm %.4g is over guard.grad_norm = %.4g", gradient_norm, config_.grad_norm);
  if (config_.loss_spike > 0 && int64_t(window_.size()) == config_.window) {
    const double mean = std::accumulate(window_.begin(), window_.end(), 0.0) / double(window_.size());
    if (loss > config_.loss_spike * mean)
      return printed("loss spike: %.4g is over %.4g times the mean %.4g of %zu steps", loss, config_.loss_spike, mean,
                     window_.size());
  }
  return "";
}

std::string Guard::judge(double loss, double gradient_norm) {
  std::string reason = verdict(loss, gradient_norm);
  if (!reason.empty()) {
    ++in_a_row_;
    return reason;
  }
  in_a_row_ = 0;
  window_.push_back(loss);
  if (int64_t(window_.size()) > config_.window) window_.pop_front();
  return "";
}

void Guard::restore(std::deque<double> window, int64_t in_a_row) {
  window_ = std::move(window);
  in_a_row_ = in_a_row;
}

}  // namespace wmtp
