// Guards: whether a step may change the parameters. Every rank feeds the same numbers, so every rank decides the same.
#pragma once

#include <deque>
#include <string>

#include "experiment/experiment.hpp"

namespace wmtp {

class Guard {
 public:
  explicit Guard(const GuardConfig& config) : config_(config) {}

  /// "" when the step is accepted, else why it is skipped: "not finite", "loss spike …", "gradient norm …".
  /// A NaN never enters the window. Skipped steps in a row are counted.
  std::string judge(double loss, double gradient_norm);
  bool gave_up() const { return in_a_row_ >= config_.max_in_a_row; }
  int64_t in_a_row() const { return in_a_row_; }

  // State, for checkpoints.
  const std::deque<double>& window() const { return window_; }
  void restore(std::deque<double> window, int64_t in_a_row);

 private:
  std::string verdict(double loss, double gradient_norm) const;
  GuardConfig config_;
  std::deque<double> window_;  ///< losses of the last accepted steps
  int64_t in_a_row_ = 0;
};

}  // namespace wmtp
