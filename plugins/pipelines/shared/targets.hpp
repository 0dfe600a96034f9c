// From the source positions of a head to those of its targets.
#pragma once

#include <algorithm>
#include <wmtp/plugin.hpp>

namespace targets {

/// [B,S] of a head by source as [B,S] by target, 0 where the head predicts nothing.
inline wmtp::Tensor at_targets(const wmtp::Tensor& of_sources, int64_t offset) {
  const int64_t S = of_sources.size(1), k = std::min(offset, S);
  return at::cat({at::zeros_like(of_sources.narrow(1, 0, k)), of_sources.narrow(1, 0, S - k)}, 1);
}

}  // namespace targets
