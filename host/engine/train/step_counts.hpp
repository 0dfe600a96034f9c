// What an optimizer step, or a validation, holds over all ranks and micro-batches: the denominators of every loss.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/batches/batches.hpp"
#include "engine/comm/channels.hpp"

namespace wmtp {

struct StepCounts {
  std::vector<int64_t> targets;  ///< [H] valid targets of each head
  int64_t tokens = 0;            ///< without padding
  int64_t answers = 0;           ///< tokens of kind "answer"
  int64_t pairs = 0;
};

/// [all ranks, collective] Adds up over ranks; `also` rides along: this rank's numbers before, the sums after.
StepCounts count_over_ranks(const std::vector<MicroBatch>& micros, Channels& channels, const std::string& what,
                            std::vector<double>* also = nullptr);

}  // namespace wmtp
