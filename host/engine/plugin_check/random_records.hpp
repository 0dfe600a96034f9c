// Batches of random records for trials: prompts and answers of many lengths, in pairs of a right and a wrong one, a row
// of padding now and then. What stands at a position follows from the position alone. [engine]
#pragma once

#include <memory>

#include "engine/batches/batches.hpp"

namespace wmtp {

struct RandomRecordsRequest {
  int64_t batch_size = 4, sequence_length = 24, vocab_size = 64;
  bool targets = true;  ///< without: all that there is are prompts, single tokens and padding
  BatchRequest wanted;
};

std::unique_ptr<BatchSource> random_records(const RandomRecordsRequest& request);

}  // namespace wmtp
