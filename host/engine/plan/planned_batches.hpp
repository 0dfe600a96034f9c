// Batches of a planned step: as large as the longest ones of a run, and without values.
#pragma once

#include "engine/batches/batches.hpp"

namespace wmtp {

/// Sequences of `positions` tokens, all of them targets. `separate`: rows may hold several documents.
std::unique_ptr<BatchSource> planned_batches(int64_t batch_size, int64_t positions, const BatchRequest& request,
                                             bool separate);

}  // namespace wmtp
