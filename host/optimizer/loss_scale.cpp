#include "optimizer/loss_scale.hpp"

#include <algorithm>

namespace wmtp {

void LossScale::update(bool overflowed) {
  if (overflowed) {
    state_.finite_steps = 0;
    state_.overflows_left = std::max<int64_t>(state_.overflows_left - 1, 0);
    if (state_.overflows_left == 0) state_.scale = std::max(state_.scale / 2, minimum);
  } else if (++state_.finite_steps == window) {
    state_ = {state_.scale * 2, 0, hysteresis};
  }
}

}  // namespace wmtp
