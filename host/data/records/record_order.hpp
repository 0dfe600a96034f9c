// The difficulty bin from which each position of a run draws, and the index of its draw within that bin: a pure
// function of (seed, position), like WindowOrder.
#pragma once

#include <cstdint>
#include <vector>

namespace wmtp {

/// Shares of the bins over a run of `total` positions: `start` at its first, `end` at its last, linear in between. Both
/// are normalised; a bin of weight 0 in both is never drawn.
///
/// The run is divided into blocks. Each block assigns an integer number of places to each bin, such that no bin is ever
/// more than one place behind its cumulative share; within a block the places are shuffled by seed.
class BinOrder {
 public:
  BinOrder(int64_t seed, std::vector<double> start, std::vector<double> end, int64_t total);

  struct Draw {
    int64_t bin;    ///< index into the weights
    int64_t drawn;  ///< number of earlier draws from that bin
  };
  /// `position`: 0 … total - 1.
  Draw at(int64_t position) const;

 private:
  std::vector<int64_t> block_places(int64_t block) const;

  int64_t seed_, total_, block_size_;
  std::vector<double> start_, end_;
  std::vector<std::vector<int64_t>> drawn_before_;  ///< [block][bin]
};

}  // namespace wmtp
