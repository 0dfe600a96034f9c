// Guards: whether a step may change the parameters. Every rank feeds the same numbers, so every rank decides the same.
// By default only what is not finite is skipped (docs/decisions/0030-no-step-is-skipped-unasked.md).
#pragma once

#include <deque>
#include <string>

#include "core/experiment/experiment.hpp"

namespace wmtp {

class Guard {
 public:
  explicit Guard(const GuardConfig& config) : config_(config) {}

  /// "" when the step is accepted, else why it is skipped: "not finite", "loss spike …", "gradient norm …"; the first
  /// time also what that costs, and the key that ends it. Only accepted losses enter the window, so no NaN does.
  /// Skipped steps in a row are counted.
  std::string judge(double loss, double gradient_norm);
  bool gave_up() const { return in_a_row_ >= config_.max_in_a_row; }
  int64_t in_a_row() const { return in_a_row_; }
  const GuardConfig& config() const { return config_; }

  // State, for checkpoints.
  const std::deque<double>& window() const { return window_; }
  void restore(std::deque<double> window, int64_t in_a_row);

 private:
  struct Verdict {
    std::string reason;  ///< empty: accepted
    std::string key;     ///< of the experiment, whose limit it was; empty for what no key allows
  };
  Verdict verdict(double loss, double gradient_norm) const;
  GuardConfig config_;
  std::deque<double> window_;  ///< losses of the last accepted steps
  int64_t in_a_row_ = 0;
  bool is_first_ = true;  ///< no step has been skipped yet for a limit
};

}  // namespace wmtp
