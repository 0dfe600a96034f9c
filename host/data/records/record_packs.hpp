// Packs records into sequences for data.packing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/records/records.hpp"

namespace wmtp {

/// Lists of records whose lengths together are at most a sequence's.
class RecordPacks {
 public:
  /// Best fit decreasing: the longest record first, each into the fullest pack that has room for it. At most 11/9 of
  /// the smallest possible number of packs, and one (D. S. Johnson, 1973). Depends only on the lengths and the order of
  /// `chosen`. `sequence_length`: at least the length of each.
  RecordPacks(const std::vector<RecordEntry>& entries, const std::vector<int64_t>& chosen, int64_t sequence_length);

  int64_t count() const { return int64_t(begins_.size()) - 1; }
  /// The records of a pack, in the order of their places in it.
  std::span<const int64_t> records(int64_t pack) const;

 private:
  std::vector<int64_t> records_;
  std::vector<int64_t> begins_;  ///< of each pack in records_, and the end of the last
};

}  // namespace wmtp
