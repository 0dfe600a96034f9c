// Keepers: the ranks that keep a job's files for the others. Rank 0 does for all ranks that see its folder, so for the
// whole job if its hosts share a file system. Ranks that do not see it have a keeper of their own: the lowest of those
// that see the same folder.
#pragma once

#include <filesystem>
#include <vector>

#include "comm/torch/peers.hpp"

namespace wmtp {

class Keepers {
 public:
  /// Rank 0 keeps all files.
  Keepers() = default;
  /// `by_rank`: the keeper of each rank.
  explicit Keepers(std::vector<int> by_rank);
  /// [all ranks, collective] Finds out which ranks see the same `folder` (rank 0's counts): the first rank of each host
  /// writes a file into it, and all ranks look for these files. Does nothing for ranks of one host. Error(storage) on
  /// every rank if a host cannot write there.
  Keepers(Peers& peers, const std::filesystem::path& folder);

  int of(int rank) const { return by_rank_.empty() ? 0 : by_rank_[size_t(rank)]; }
  bool all_share() const { return by_rank_.empty(); }

 private:
  std::vector<int> by_rank_;  ///< empty: 0 for all
};

}  // namespace wmtp
