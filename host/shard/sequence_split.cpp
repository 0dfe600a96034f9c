#include "shard/sequence_split.hpp"

#include <algorithm>

#include "shard/group_exchange.hpp"

namespace wmtp {

using at::Tensor;

Positions SequenceSplit::local_positions(int64_t S) const {
  TORCH_CHECK(S % group_.size == 0, S, " positions for ", group_.size, " ranks");
  return {group_.rank * (S / group_.size), S / group_.size};
}

Positions SequenceSplit::local_positions_below(int64_t end, int64_t S) const {
  const Positions all = local_positions(S);
  return {all.first, std::clamp<int64_t>(end - all.first, 0, all.count)};
}

Tensor SequenceSplit::part(const Tensor& whole) const {
  if (is_whole()) return whole;
  const Positions mine = local_positions(whole.size(1));
  return whole.narrow(1, mine.first, mine.count);
}

Tensor SequenceSplit::whole(const Tensor& part) const {
  if (is_whole()) return part;
  return GroupExchange(group_, "a sequence's positions").gathered(part);
}

}  // namespace wmtp
