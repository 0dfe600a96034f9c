#include "step/head_inputs.hpp"

namespace wmtp {

using at::Tensor;

Tensor next_tokens(const ShardedModel& model, const Tensor& tokens) {
  const Positions here = model.split().local_positions(tokens.size(1));
  return at::roll(tokens, -(here.first + here.count), 1).narrow(1, 0, model.num_heads() - 1);
}

Tensor embedded_for_heads(const ShardedModel& model, const Tensor& tokens, HeadInputs& inputs) {
  const Tensor embedded = model.embedded(model.split().part(tokens));
  if (!model.chains_heads()) return embedded;
  inputs.embedded = embedded;
  inputs.next = model.embedded(next_tokens(model, tokens));
  return embedded;
}

Tensor embedded_for(int64_t head, const HeadInputs& inputs) {
  if (head == 1 || !inputs.embedded.defined()) return {};
  const int64_t own = inputs.embedded.size(1) - (head - 1);
  return at::cat({inputs.embedded.narrow(1, head - 1, own), inputs.next.narrow(1, 0, head - 1)}, 1);
}

}  // namespace wmtp
