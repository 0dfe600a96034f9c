// The sequences that an optimizer step reads: micro-batches of train.batch_size on each rank, whose number is
// train.gradient_accumulation or follows from train.global_batch_size.
#pragma once

#include <cstdint>
#include <string>

#include "experiment/experiment.hpp"

namespace wmtp {

/// Sequences of one optimizer step, over all micro-batches and all `data_ranks`, the ranks that read different
/// sequences.
inline int64_t sequences_per_step(const TrainConfig& train, int64_t data_ranks) {
  if (train.global_batch_size > 0) return train.global_batch_size;
  return train.batch_size * train.gradient_accumulation * data_ranks;
}

/// Micro-batches of each rank in one optimizer step.
inline int64_t micro_batches(const TrainConfig& train, int64_t data_ranks) {
  return sequences_per_step(train, data_ranks) / (train.batch_size * data_ranks);
}

/// Why whole micro-batches of `processes` ranks do not fill train.global_batch_size; "" when they do or it is not
/// given.
std::string global_batch_misfit(const Experiment& experiment, int64_t processes);

}  // namespace wmtp
