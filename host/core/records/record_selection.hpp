// Which records, or pairs of them, an experiment draws: those of its part, its selection and its bins of difficulty.
// Knows no LibTorch.
#pragma once

#include <vector>

#include "core/experiment/difficulty.hpp"
#include "core/experiment/experiment.hpp"
#include "core/records/records.hpp"

namespace wmtp {

enum class RecordPart { train, validation };

struct RecordSelection {
  std::vector<DifficultyRange> ranges;        ///< of [data.difficulty]; empty without it
  std::vector<std::vector<int64_t>> records;  ///< by bin, one list without bins; of pairs right, wrong, right, wrong, …
};

/// Error(usage) when pairs are wanted of right answers alone. Error(data), with the counts, when nothing is left, when
/// no pair can be made, or when a bin that is to be drawn from is empty.
RecordSelection select_records(const Experiment& experiment, const Records& records, RecordPart part, bool pairs);

}  // namespace wmtp
