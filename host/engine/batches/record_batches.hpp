// Batches of records: prompt, answer, padding. A micro-batch is as long as its longest record over all ranks, rounded
// up to a multiple of 16: every rank knows the index, so all know that length without asking.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/experiment/difficulty.hpp"
#include "core/records/records.hpp"
#include "engine/batches/batches.hpp"

namespace wmtp {

/// What is drawn: `rows` neighbouring sequences of the run at once, one record or a pair (right, wrong).
struct RecordDraws {
  int64_t rows = 1;
  std::vector<std::vector<int64_t>> records;  ///< of each list what may be drawn, `rows` numbers for each
  std::vector<DifficultyRange> ranges;        ///< bins of difficulty, for MicroBatch::bins
  std::vector<std::string> bins;              ///< their names
};

/// Where a draw is found.
struct RecordPlace {
  size_t list;
  int64_t index;
};
/// The order of a run, by draw: position / rows.
using RecordOrder = std::function<RecordPlace(int64_t)>;

/// `records` outlives the source. batch_size is a multiple of `rows`.
std::unique_ptr<BatchSource> record_batches(const Records& records, RecordDraws draws, RecordOrder order,
                                            int64_t batch_size, int64_t sequence_length, const BatchRequest& request);

}  // namespace wmtp
