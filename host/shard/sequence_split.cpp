#include "shard/sequence_split.hpp"

#include <algorithm>

namespace wmtp {

using at::Tensor;

Tensor SequenceSplit::all_to_all(const Tensor& parts) const {
  Tensor received = at::empty_like(parts);
  group_.gather->all_to_all(received.view({-1}), parts.view({-1}), "exchanging heads for positions").wait();
  return received;
}

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
  std::vector<int64_t> shape = part.sizes().vec();
  shape.insert(shape.begin(), group_.size);
  Tensor parts = at::empty(shape, part.options());
  group_.gather->all_gather(parts.view({-1}), part.contiguous().view({-1}), "gathering a sequence's positions").wait();
  return parts.transpose(0, 1).flatten(1, 2);
}

}  // namespace wmtp
