// LossScale: what gradients of an fp16 run are multiplied by while they are computed, so that small ones do not fall
// below 2^-24, where fp16 ends (Micikevicius et al. 2018). It follows the gradients:
//
//   begins at 2^16; doubles after 1000 steps in a row whose gradients were finite
//   halves, down to 1, at the second step whose gradients overflowed since it last doubled, and at every one after that
//
// A power of two, so that dividing by it loses nothing. Every rank feeds the same numbers, so every rank has the same.
#pragma once

#include <cstdint>

namespace wmtp {

class LossScale {
 public:
  static constexpr double first = 65536, minimum = 1;
  static constexpr int64_t window = 1000, hysteresis = 2;

  /// What a checkpoint holds.
  struct State {
    double scale = first;
    int64_t finite_steps = 0;             ///< in a row
    int64_t overflows_left = hysteresis;  ///< until it halves
    bool operator==(const State&) const = default;
  };

  double value() const { return state_.scale; }
  /// After each step: whether its gradients, times value(), overflowed.
  void update(bool overflowed);

  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  State state_;
};

}  // namespace wmtp
