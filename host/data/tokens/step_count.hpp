// The number of steps of a run, from the number of windows and ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "base/text.hpp"
#include "experiment/batch_size.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

/// Progress of a run: completed optimizer steps, and the position of the next sequence in the run's order. They are
/// proportional until the run resumes with another number of sequences per step, which continues from this position.
struct DataCursor {
  int64_t step = 0;
  int64_t position = 0;
};

/// Optimizer steps of the run: `steps`, or `epochs` times all windows, with the last step filled from the next epoch.
/// The `data_ranks` ranks share the sequences after `from`.
inline int64_t num_steps(const TrainConfig& train, int64_t num_windows, int64_t data_ranks,
                         const DataCursor& from = {}) {
  if (train.steps > 0) return train.steps;
  if (num_windows == std::numeric_limits<int64_t>::max())
    throw Error(ExitStatus::data,
                "train.epochs has no meaning for unlimited data (data.kind = \"random\"); set train.steps");
  const double left = train.epochs * double(num_windows) - double(from.position);
  const double steps = left / double(sequences_per_step(train, data_ranks));
  if (steps > 1e12) throw Error(ExitStatus::usage, "train.epochs gives more than 1e12 steps; lower it");
  // Rounding errors must not add a step to a whole number such as 0.3 * 1,000 / 10.
  const auto whole = int64_t(std::ceil(steps - 1e-9 * std::max(1.0, steps)));
  return std::max<int64_t>(1, from.step + std::max<int64_t>(0, whole));
}

/// Error(data) if there are fewer sequences than one step reads: it would read some of them twice. In the message,
/// `found` names the sequences and `kind` what to add.
inline void check_fills_a_step(const TrainConfig& train, int64_t sequences, int64_t data_ranks,
                               const std::string& found, const std::string& kind) {
  const int64_t wanted = sequences_per_step(train, data_ranks);
  if (sequences >= wanted) return;
  const bool is_global = train.global_batch_size > 0;
  const std::string batch = is_global
                                ? "train.global_batch_size"
                                : counted(data_ranks, "rank") + " x batch_size " + std::to_string(train.batch_size) +
                                      " x gradient_accumulation " + std::to_string(train.gradient_accumulation);
  throw Error(ExitStatus::data, found + ", but one step needs " + with_thousands(wanted) + " (" + batch + "); use " +
                                    (is_global ? "" : "fewer ranks, ") + "a smaller batch, or more " + kind);
}

}  // namespace wmtp
