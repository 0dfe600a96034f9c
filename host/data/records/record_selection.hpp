// Selects the records, or pairs of records, that an experiment draws: by part, data.select and difficulty bin.
#pragma once

#include <vector>

#include "data/records/records.hpp"
#include "experiment/difficulty.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

enum class RecordPart { train, validation };

struct RecordSelection {
  std::vector<DifficultyRange> ranges;        ///< [data.difficulty]; empty without it
  std::vector<std::vector<int64_t>> records;  ///< one list per bin, or one list; pairs as right, wrong, right, wrong, …
};

/// Bins that are not drawn from have empty lists. Error(usage) for pairs of right answers only. Error(data), with the
/// counts, if nothing is left, there is no pair, or a bin to draw from is empty.
RecordSelection select_records(const Experiment& experiment, const Records& records, RecordPart part, bool pairs);

}  // namespace wmtp
