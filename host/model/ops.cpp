#include "model/ops.hpp"

#include <torch/csrc/autograd/custom_function.h>

namespace wmtp {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

void save_handle(AutogradContext* context, const WeightHandle& handle) {
  context->saved_data["store"] = reinterpret_cast<int64_t>(handle.store);
  context->saved_data["index"] = int64_t(handle.index);
}
WeightHandle saved_handle(AutogradContext* context) {
  return {reinterpret_cast<WeightStore*>(context->saved_data["store"].toInt()),
          int(context->saved_data["index"].toInt())};
}
Tensor rows(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

struct Linear : Function<Linear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const WeightHandle& handle) {
    context->save_for_backward({x});
    save_handle(context, handle);
    return at::linear(x, handle.weight());
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const WeightHandle handle = saved_handle(context);
    const Tensor x = context->get_saved_variables()[0];
    const Tensor dy = rows(gradients[0]);
    if (handle.trains()) handle.store->add_product(handle.index, dy, rows(x));
    return {at::mm(dy, handle.weight()).view(x.sizes()), Tensor()};
  }
};

struct RmsNorm : Function<RmsNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const WeightHandle& handle, double eps) {
    const Tensor wide = x.to(at::kFloat);
    const Tensor scale = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
    context->save_for_backward({x, scale});
    save_handle(context, handle);
    return (wide * scale).to(x.scalar_type()) * handle.weight();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const WeightHandle handle = saved_handle(context);
    const auto saved = context->get_saved_variables();
    const Tensor normed = saved[0].to(at::kFloat) * saved[1];
    const Tensor dy = gradients[0].to(at::kFloat);
    if (handle.trains()) handle.store->add_gradient(handle.index, rows(dy * normed).sum(0));
    const Tensor dn = dy * handle.weight().to(at::kFloat);
    const Tensor along = (dn * normed).mean(-1, /*keepdim=*/true);
    return {((dn - normed * along) * saved[1]).to(saved[0].scalar_type()), Tensor(), Tensor()};
  }
};

struct AddBias : Function<AddBias> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const WeightHandle& handle) {
    save_handle(context, handle);
    return x + handle.weight();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const WeightHandle handle = saved_handle(context);
    if (handle.trains()) handle.store->add_gradient(handle.index, gradients[0].sum().view({1, 1}));
    return {gradients[0], Tensor()};
  }
};

struct SwiGlu : Function<SwiGlu> {
  static Tensor forward(AutogradContext* context, const Tensor& gate, const Tensor& up) {
    context->save_for_backward({gate, up});
    return at::silu(gate).mul_(up);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor d_up = at::silu(saved[0]).mul_(gradients[0]);
    return {at::silu_backward(gradients[0] * saved[1], saved[0]), d_up};
  }
};

}  // namespace

Tensor linear(const Tensor& x, const WeightHandle& weight) { return Linear::apply(x, weight); }
Tensor rms_norm(const Tensor& x, const WeightHandle& weight, double eps) { return RmsNorm::apply(x, weight, eps); }
Tensor add_bias(const Tensor& x, const WeightHandle& bias) { return AddBias::apply(x, bias); }
Tensor swiglu(const Tensor& gate, const Tensor& up) { return SwiGlu::apply(gate, up); }

Tensor rotary_table(int64_t positions, int64_t head_dim, double theta, const at::Device& device) {
  const auto options = at::TensorOptions(at::kFloat);
  const Tensor exponent = at::arange(0, head_dim, 2, options) / double(head_dim);
  const Tensor frequency = at::scalar_tensor(theta, options).pow(exponent).reciprocal();
  const Tensor angle = at::outer(at::arange(positions, options), frequency);
  return at::complex(angle.cos(), angle.sin()).to(device);
}

Tensor rotate(const Tensor& x, const Tensor& table) {
  const Tensor pairs = at::view_as_complex(x.to(at::kFloat).unflatten(-1, {-1, 2}));
  const Tensor turned = pairs * table.unsqueeze(1);
  return at::view_as_real(turned).flatten(-2).to(x.scalar_type());
}

}  // namespace wmtp
