// FileWriters: which rank writes the files that ranks share. Rank 0 does for all ranks that see its folder, so for the
// whole job if its hosts share a file system; other ranks have a writer of their own, the lowest of those that see the
// same folder.
#pragma once

#include <filesystem>
#include <vector>

#include "comm/torch/peers.hpp"

namespace wmtp {

class FileWriters {
 public:
  /// Rank 0 keeps all files.
  FileWriters() = default;
  /// `by_rank`: the writer of each rank.
  explicit FileWriters(std::vector<int> by_rank);
  /// [all ranks, collective] Finds out which ranks see the same `folder` (rank 0's counts): the first rank of each host
  /// writes a file into it, and all ranks look for these files. Does nothing for ranks of one host. Error(storage) on
  /// every rank if a host cannot write there.
  FileWriters(Peers& peers, const std::filesystem::path& folder);

  int writer_for(int rank) const { return by_rank_.empty() ? 0 : by_rank_[size_t(rank)]; }
  bool is_shared_folder() const { return by_rank_.empty(); }

 private:
  std::vector<int> by_rank_;  ///< empty: 0 for all
};

}  // namespace wmtp
