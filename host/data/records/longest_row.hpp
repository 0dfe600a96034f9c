// Sequence lengths of a run over records, from the prepared index only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/round_up.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

/// What the longest row of a batch has at least, with padding, so that a head has a source on each of the `parts` ranks
/// that divide the positions. `offset`: of the last head, 0 without heads.
inline int64_t least_positions(int64_t offset, int64_t parts) { return std::max(offset + 1, parts * offset); }

/// Positions of a batch whose longest row has `longest` ids.
inline int64_t batch_positions(int64_t longest, int64_t sequence_length) {
  return std::min(round_up(longest, positions_multiple), sequence_length);
}

/// The rows that training may draw: records, or with data.packing packs of records.
struct RecordRows {
  int64_t longest = 0;  ///< in ids
  int64_t numbers = 0;  ///< one more than the largest number of a row
};

/// nullopt if the records are not prepared in `cache`, or if the answer would require reading hundreds of megabytes.
/// Error(data) if the experiment's files are missing.
std::optional<RecordRows> training_rows(const Experiment& experiment, const std::filesystem::path& cache, bool pairs);

}  // namespace wmtp
