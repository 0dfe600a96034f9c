#include "model/torch/tensor_parallel.hpp"

#include "model/torch/operation.hpp"
#include "model/torch/row_ops.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor sum(const Tensor& part, const RankExchange& tensor) {
  return reduce_scatter(part.unflatten(1, {tensor.ranks(), -1}).transpose(0, 1).contiguous(), tensor);
}

const RankExchange& saved_exchange(AutogradContext* context) {
  return *reinterpret_cast<const RankExchange*>(context->saved_data["tensor"].toInt());
}

struct GatheredPositions : Operation<GatheredPositions> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const RankExchange* tensor) {
    context->saved_data["tensor"] = reinterpret_cast<int64_t>(tensor);
    return tensor->gathered(x);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {sum(gradients[0], saved_exchange(context)), Tensor()};
  }
};

struct SummedPositions : Operation<SummedPositions> {
  static Tensor forward(AutogradContext* context, const Tensor& part, const RankExchange* tensor) {
    context->saved_data["tensor"] = reinterpret_cast<int64_t>(tensor);
    return sum(part, *tensor);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {saved_exchange(context).gathered(gradients[0]), Tensor()};
  }
};

}  // namespace

Tensor reduce_scatter(const Tensor& by_rank, const RankExchange& ranks) {
  const Tensor received = ranks.all_to_all(by_rank);
  Tensor all = at::empty({received.numel() / ranks.ranks()}, received.options().dtype(at::kFloat));
  sum_of_parts(received.view({ranks.ranks(), -1}), all);
  return all.to(by_rank.scalar_type()).view(by_rank.sizes().slice(1));
}

Tensor all_gather_positions(const Tensor& x, const RankExchange& tensor) {
  return GatheredPositions::apply(x, &tensor);
}
Tensor reduce_scatter_positions(const Tensor& part, const RankExchange& tensor) {
  return SummedPositions::apply(part, &tensor);
}

}  // namespace wmtp
