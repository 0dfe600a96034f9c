// What controls that move weights within a sequence share: its whole length, and the targets of a head's sources.
#pragma once

#include <algorithm>
#include <wmtp/plugin.hpp>

namespace targets {

/// The needs of a weighting that sees whole sequences, which are not available inside the loss.
inline wmtp::Needs with_whole_sequences(wmtp::Needs needs) {
  if (needs.when == wmtp::When::token) needs.when = wmtp::When::head;
  return needs;
}

/// [B,S] of a head by source as [B,S] by target, 0 where the head predicts nothing.
inline wmtp::Tensor at_targets(const wmtp::Tensor& of_sources, int64_t offset) {
  const int64_t S = of_sources.size(1), k = std::min(offset, S);
  return at::cat({at::zeros_like(of_sources.narrow(1, 0, k)), of_sources.narrow(1, 0, S - k)}, 1);
}

}  // namespace targets
