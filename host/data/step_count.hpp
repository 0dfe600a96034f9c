// How long a run is, as a function of how many windows there are and how many ranks share them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/error.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

/// Sequences that one optimizer step takes over all ranks and micro-batches.
inline int64_t sequences_per_step(const TrainConfig& train, int64_t world_size) {
  return train.batch_size * train.gradient_accumulation * world_size;
}

/// Optimizer steps of the run: `steps`, or `epochs` times all windows, the last step filled from the next epoch.
inline int64_t num_steps(const TrainConfig& train, int64_t num_windows, int64_t world_size) {
  if (train.steps > 0) return train.steps;
  if (num_windows == std::numeric_limits<int64_t>::max())
    throw Error(ExitStatus::data,
                "train.epochs has no meaning for data without an end (data.kind = \"random\"): "
                "say how long with train.steps");
  const double steps =
      train.epochs * static_cast<double>(num_windows) / static_cast<double>(sequences_per_step(train, world_size));
  // What is a whole number on paper (0.3 * 1,000 / 10) must not become one step more by rounding.
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(steps - 1e-9 * std::max(1.0, steps))));
}

}  // namespace wmtp
