// LossScale: the factor by which an fp16 run's gradients are scaled during computation, so that small ones do not
// underflow below 2^-24, the smallest fp16 number (Micikevicius et al. 2018). Dynamic:
//
//   starts at 2^16; doubles after 1000 consecutive steps with finite gradients
//   halves, down to 1, at the second overflow since it last doubled, and at each one after that
//
// A power of two, so that dividing by it is exact. All ranks pass the same numbers, so their scales are equal.
#pragma once

#include "checkpoint/saved_state.hpp"

namespace wmtp {

class LossScale {
 public:
  static constexpr double minimum = 1;
  static constexpr int64_t window = 1000, hysteresis = max_overflows_left;

  using State = SavedState::Scale;

  double value() const { return state_.scale; }
  /// Call after each step. `overflowed`: whether its gradients, multiplied by value(), overflowed.
  void update(bool overflowed);

  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  State state_;
};

}  // namespace wmtp
