// The records, or pairs of records, that an experiment draws: by part, data.select and difficulty bins.
#pragma once

#include <vector>

#include "core/experiment/difficulty.hpp"
#include "core/experiment/experiment.hpp"
#include "core/records/records.hpp"

namespace wmtp {

enum class RecordPart { train, validation };

struct RecordSelection {
  std::vector<DifficultyRange> ranges;        ///< of [data.difficulty]; empty without it
  std::vector<std::vector<int64_t>> records;  ///< one list per bin, or one list; pairs as right, wrong, right, wrong, …
};

/// Lists of bins that are not drawn from are empty. Error(usage) for pairs of right answers only. Error(data), with the
/// counts, when nothing is left, when there is no pair, or when a bin to draw from is empty.
RecordSelection select_records(const Experiment& experiment, const Records& records, RecordPart part, bool pairs);

}  // namespace wmtp
