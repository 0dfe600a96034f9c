// Which bin of difficulty each position of a run draws from, and the how-manieth record of that bin it draws: a
// function of (seed, position) alone, like WindowOrder. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <vector>

namespace wmtp {

/// Shares of the bins over a run of `total` positions: `start` at its first, `end` at its last, linear between. Both
/// are divided by their sums; a bin of weight 0 in both is never drawn.
///
/// The run is cut into blocks. Each block has a whole number of places for each bin, chosen so that no bin is ever more
/// than one place behind what its share of all blocks so far comes to; within a block the places are shuffled by seed.
class BinOrder {
 public:
  BinOrder(int64_t seed, std::vector<double> start, std::vector<double> end, int64_t total);

  struct Draw {
    int64_t bin;    ///< by its index in the weights
    int64_t drawn;  ///< how often that bin was drawn before
  };
  /// `position`: 0 … total - 1.
  Draw at(int64_t position) const;

 private:
  std::vector<int64_t> places_of(int64_t block) const;

  int64_t seed_, total_, block_size_;
  std::vector<double> start_, end_;
  std::vector<std::vector<int64_t>> drawn_before_;  ///< [block][bin]
};

}  // namespace wmtp
