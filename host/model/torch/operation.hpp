// Operation: a differentiable operation with a gradient of its own, whose parts are not differentiated themselves.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace wmtp {

/// `struct Scale : Operation<Scale>` with `forward(context, arguments…)` and `backward(context, gradients)`, called by
/// `Scale::apply(arguments…)`, as torch::autograd::Function. Both skip autograd's part of the operators that they call,
/// which does nothing there and costs about as much as the dispatch of a small one.
template <class Own>
struct Operation : torch::autograd::Function<Operation<Own>> {
  template <class... Arguments>
  static auto forward(torch::autograd::AutogradContext* context, Arguments&&... arguments) {
    const at::AutoDispatchBelowADInplaceOrView plain;
    return Own::forward(context, std::forward<Arguments>(arguments)...);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::AutoDispatchBelowADInplaceOrView plain;
    return Own::backward(context, std::move(gradients));
  }
};

}  // namespace wmtp
