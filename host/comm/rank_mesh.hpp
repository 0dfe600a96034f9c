// RankMesh: which ranks of a section, those with the same part of the model, work together. They are numbered with the
// tensor axis fastest: with Q = sequence and T = tensor ranks,
//
//   rank = (d * Q + q) * T + t
//
// ranks of different d read different sequences; of these, rank q has a part of the positions, and inside a block rank
// t a part of the features. A line is the ranks that differ in one of these numbers. With six ranks, Q = 1 and T = 2:
//
//   tensor 0 1 | 2 3 | 4 5      cut parameters 0 2 4 | 1 3 5      whole parameters 0 1 2 3 4 5
//
// A parameter is whole, or cut into T pieces. Between the gather of a block's input and the layers that are cut by
// columns, a rank has a part of the features; elsewhere it has a part of the positions. In both cases the gradient that
// it computes for a whole parameter is a part of the sum, so a whole parameter is sharded and its gradient summed over
// all ranks, and a piece over the ranks that have the same piece. Nothing else distinguishes the two.
#pragma once

#include <algorithm>

namespace wmtp {

/// A rank's position in a line of ranks, each `stride` after the one before.
struct RankAxis {
  int rank = 0, size = 1;
  int stride = 1;
};

class RankMesh {
 public:
  /// sequence_ranks * tensor_ranks must divide `ranks`.
  RankMesh(int rank, int ranks, int sequence_ranks, int tensor_ranks)
      : rank_(rank), ranks_(ranks), sequence_ranks_(sequence_ranks), tensor_ranks_(tensor_ranks) {}

  /// The ranks that read the same sequences and divide the positions of the residual stream.
  RankAxis same_sequences() const { return line(1, sequence_ranks_ * tensor_ranks_); }
  /// The ranks that have the same positions inside a block and divide its features.
  RankAxis tensor() const { return line(1, tensor_ranks_); }
  /// The ranks that have the same features inside a block and exchange heads for positions in attention.
  RankAxis attention() const { return line(tensor_ranks_, sequence_ranks_); }
  /// The ranks that share one copy of the parameters, or of this rank's pieces of cut ones, in groups of
  /// `group_size` ranks; 1: nothing is sharded. tensor_ranks divides a larger group_size.
  RankAxis shard(int group_size, bool is_cut) const {
    const int stride = is_cut ? tensor_ranks_ : 1;
    return line(stride, std::max(group_size / stride, 1));
  }
  /// The ranks that hold the same shard.
  RankAxis replicate(int group_size, bool is_cut) const {
    const RankAxis shard_line = shard(group_size, is_cut);
    const int stride = shard_line.stride * shard_line.size;
    return line(stride, ranks_ / stride);
  }

 private:
  RankAxis line(int stride, int size) const { return {rank_ / stride % size, size, stride}; }

  int rank_, ranks_, sequence_ranks_, tensor_ranks_;
};

}  // namespace wmtp
