#include "model/torch/ulysses_attention.hpp"

#include "model/torch/operation.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Its own inverse, so the gradients take the same way back.
struct AllToAll : Operation<AllToAll> {
  static Tensor forward(AutogradContext* context, const Tensor& parts, const RankExchange* split) {
    context->saved_data["split"] = reinterpret_cast<int64_t>(split);
    return split->all_to_all(parts.contiguous());
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto* split = reinterpret_cast<const RankExchange*>(context->saved_data["split"].toInt());
    return {split->all_to_all(gradients[0].contiguous()), Tensor()};
  }
};

}  // namespace

Tensor ulysses_attention(const Tensor& query, const Tensor& key, const Tensor& value, int64_t window,
                         const Documents& documents, const RankExchange& split) {
  const int64_t Q = split.ranks();
  const auto parts_by_heads = [Q](const Tensor& x) {  // [B,S/Q,n,D] -> [Q,B,S/Q,n/Q,D]
    return x.unflatten(2, {Q, x.size(2) / Q}).permute({2, 0, 1, 3, 4});
  };
  const Tensor received =
      AllToAll::apply(at::cat({parts_by_heads(query), parts_by_heads(key), parts_by_heads(value)}, /*dim=*/3), &split);
  const int64_t H = query.size(2) / Q, K = key.size(2) / Q;
  const std::vector<Tensor> of_kind = received.split_with_sizes({H, K, K}, /*dim=*/3);
  const auto all_positions = [](const Tensor& x) { return x.permute({1, 0, 2, 3, 4}).flatten(1, 2); };
  const Tensor mixed =  // [B,S,H/Q*D]
      causal_attention(all_positions(of_kind[0]), all_positions(of_kind[1]), all_positions(of_kind[2]), window,
                       documents);
  const Tensor returned = AllToAll::apply(mixed.unflatten(1, {Q, -1}).transpose(0, 1), &split);
  return returned.permute({1, 2, 0, 3}).flatten(2);
}

}  // namespace wmtp
