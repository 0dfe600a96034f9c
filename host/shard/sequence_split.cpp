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

Tensor SequenceSplit::with_following(const Tensor& part, int64_t count) const {
  const Tensor firsts = whole(part.narrow(1, 0, count));
  const int64_t next = (group_.rank + 1) * count;
  const bool has_next = next < firsts.size(1);
  return at::cat({part, has_next ? firsts.narrow(1, next, count) : at::zeros_like(part.narrow(1, 0, count))}, 1);
}

}  // namespace wmtp
