// Bins of metadata.difficulty: "6-10" in an experiment is a closed range.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace wmtp {

constexpr int64_t max_difficulty = 1'000'000'000;

struct DifficultyRange {
  int64_t first = 0, last = 0;  ///< inclusive
  bool holds(int64_t difficulty) const { return first <= difficulty && difficulty <= last; }
};

/// Parses "FIRST-LAST", two ascending integers from 0 to max_difficulty; nullopt for other texts.
inline std::optional<DifficultyRange> parse_difficulty_range(const std::string& text) {
  const size_t dash = text.find('-');
  if (dash == text.npos) return std::nullopt;
  const auto first = parsed_number(text.substr(0, dash)), last = parsed_number(text.substr(dash + 1));
  const bool is_range = first && last && 0 <= *first && *first <= *last && *last <= max_difficulty;
  return is_range ? std::optional(DifficultyRange{*first, *last}) : std::nullopt;
}

/// Index of the range that contains `difficulty`, or -1.
inline int64_t bin_of(const std::vector<DifficultyRange>& ranges, int64_t difficulty) {
  const auto at =
      std::find_if(ranges.begin(), ranges.end(), [&](const DifficultyRange& range) { return range.holds(difficulty); });
  return at == ranges.end() ? -1 : at - ranges.begin();
}

}  // namespace wmtp
