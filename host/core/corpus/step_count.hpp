// How long a run is, as a function of how many windows there are and how many ranks share them. Knows no LibTorch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/error.hpp"
#include "core/experiment/experiment.hpp"

namespace wmtp {

/// Sequences that one optimizer step takes over all ranks and micro-batches.
inline int64_t sequences_per_step(const TrainConfig& train, int64_t world_size) {
  return train.batch_size * train.gradient_accumulation * world_size;
}

/// Where a run stands: optimizer steps made, and the position of the next sequence in the run's order. With the same
/// ranks all along the one follows from the other; a run that is resumed with more or fewer of them draws on from here.
struct DataCursor {
  int64_t step = 0;
  int64_t position = 0;
};

/// Optimizer steps of the run: `steps`, or `epochs` times all windows, the last step filled from the next epoch. What
/// is left after `from` is shared by this many ranks.
inline int64_t num_steps(const TrainConfig& train, int64_t num_windows, int64_t world_size,
                         const DataCursor& from = {}) {
  if (train.steps > 0) return train.steps;
  if (num_windows == std::numeric_limits<int64_t>::max())
    throw Error(ExitStatus::data,
                "train.epochs has no meaning for data without an end (data.kind = \"random\"): "
                "say how long with train.steps");
  const double left = train.epochs * static_cast<double>(num_windows) - static_cast<double>(from.position);
  const double steps = left / static_cast<double>(sequences_per_step(train, world_size));
  // What is a whole number on paper (0.3 * 1,000 / 10) must not become one step more by rounding.
  const auto whole = static_cast<int64_t>(std::ceil(steps - 1e-9 * std::max(1.0, steps)));
  return std::max<int64_t>(1, from.step + std::max<int64_t>(0, whole));
}

}  // namespace wmtp
