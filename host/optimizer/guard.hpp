// Guard: decides whether a step may change the parameters. All ranks pass the same numbers and so decide the same. By
// default only non-finite steps are skipped (docs/decisions/0030-loss-spike-guard-off-by-default.md).
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "experiment/experiment.hpp"

namespace wmtp {

class Guard {
 public:
  explicit Guard(const GuardConfig& config) : config_(config) {}

  /// "" if the step is accepted, else why it is skipped: "not finite", "loss spike …", "gradient norm …"; the first
  /// time also the consequence, and the key that disables the limit. Only accepted losses enter the window, never NaN.
  /// `loss`: nullopt if the step had no target.
  std::string judge(std::optional<double> loss, double gradient_norm);
  bool gave_up() const { return in_a_row_ >= config_.max_in_a_row; }
  int64_t in_a_row() const { return in_a_row_; }
  const GuardConfig& config() const { return config_; }

  // For checkpoints.
  const std::deque<double>& window() const { return window_; }
  void restore(std::deque<double> window, int64_t in_a_row);

 private:
  struct Verdict {
    std::string reason;  ///< empty: accepted
    std::string key;     ///< the experiment's key for the exceeded limit; empty for a non-finite step
  };
  Verdict verdict(std::optional<double> loss, double gradient_norm) const;
  GuardConfig config_;
  std::deque<double> window_;  ///< losses of the last accepted steps
  int64_t in_a_row_ = 0;
  bool is_first_ = true;  ///< whether no step has exceeded a limit yet
};

}  // namespace wmtp
