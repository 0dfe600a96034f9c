// SequenceSplit: which positions of its sequences a rank has in the residual stream, and the exchanges of its sequence
// group (comm/torch/channels.hpp). Rank q of the Q in its group (sequence x tensor ranks) has positions
// [q S/Q, (q+1) S/Q). With one rank per group nothing is cut, copied or sent.
#pragma once

#include <ATen/ATen.h>

#include "comm/torch/channels.hpp"

namespace wmtp {

struct Positions {
  int64_t first = 0, count = 0;
};

class SequenceSplit {
 public:
  explicit SequenceSplit(const RankGroup& group) : group_(group) {}

  bool is_whole() const { return group_.size == 1; }
  /// This rank's part of S positions. Q must divide S.
  Positions local_positions(int64_t S) const;
  /// Of these, the ones below `end`.
  Positions local_positions_below(int64_t end, int64_t S) const;
  /// [B,S,...] -> [B,S/Q,...], a view.
  at::Tensor part(const at::Tensor& whole) const;
  /// [B,S/Q,...] -> [B,S,...], from all ranks of the group. [sequence group, collective]
  at::Tensor whole(const at::Tensor& part) const;
  /// [B,S/Q,...] -> [B,S/Q+count,...]: this rank's positions and the `count` ones after them, which must not be more
  /// than a rank has; after the last position of the sequence zeros. [sequence group, collective]
  at::Tensor with_following(const at::Tensor& part, int64_t count) const;

 private:
  RankGroup group_;
};

}  // namespace wmtp
