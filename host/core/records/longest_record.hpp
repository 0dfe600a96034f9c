// How long the sequences of a run over records become: known from the prepared index without reading any text. Knows no
// LibTorch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/round_up.hpp"
#include "core/experiment/experiment.hpp"

namespace wmtp {

/// Positions of a batch whose longest record has `longest` ids.
inline int64_t batch_positions(int64_t longest, int64_t sequence_length) {
  constexpr int64_t step = 16;
  return std::min(round_up(longest, step), sequence_length);
}

/// Ids of the longest record that training may draw. Nothing where the records are not prepared in `cache`, or where to
/// know it hundreds of megabytes would have to be read. Error(data) when the files of the experiment are not there.
std::optional<int64_t> longest_record(const Experiment& experiment, const std::filesystem::path& cache, bool pairs);

}  // namespace wmtp
