// Bins of metadata.difficulty: "6-10" in an experiment is a closed range.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace wmtp {

constexpr int64_t max_difficulty = 1'000'000'000;

struct DifficultyRange {
  int64_t first = 0, last = 0;  ///< both included
  bool holds(int64_t difficulty) const { return first <= difficulty && difficulty <= last; }
};

/// Parses "FIRST-LAST", two integers from 0 to max_difficulty, the smaller one first; nothing for other texts.
inline std::optional<DifficultyRange> parse_difficulty_range(const std::string& text) {
  DifficultyRange range;
  const char *end = text.data() + text.size(), *dash = text.data() + std::min(text.find('-'), text.size());
  const auto number = [](const char* from, const char* to, int64_t& value) {
    const auto read = std::from_chars(from, to, value);
    return read.ec == std::errc() && read.ptr == to && value >= 0 && value <= max_difficulty;
  };
  if (dash == end || !number(text.data(), dash, range.first) || !number(dash + 1, end, range.last)) return std::nullopt;
  return range.first <= range.last ? std::optional(range) : std::nullopt;
}

/// Index of the range that contains `difficulty`, or -1.
inline int64_t bin_of(const std::vector<DifficultyRange>& ranges, int64_t difficulty) {
  const auto at =
      std::find_if(ranges.begin(), ranges.end(), [&](const DifficultyRange& range) { return range.holds(difficulty); });
  return at == ranges.end() ? -1 : at - ranges.begin();
}

}  // namespace wmtp
