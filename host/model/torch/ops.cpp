#include "model/torch/ops.hpp"

#include <algorithm>
#include <cmath>

#include "model/torch/matrix_product.hpp"
#include "model/torch/operation.hpp"
#include "model/torch/row_ops.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
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

struct Linear : Operation<Linear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const WeightHandle& handle) {
    if (handle.trains()) context->save_for_backward({x});  // frees the memory if the weight is frozen
    save_handle(context, handle);
    return product_with_rows(x, handle.weight());
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const WeightHandle handle = saved_handle(context);
    const Tensor dy = rows(gradients[0]), weight = handle.weight();
    if (handle.trains()) handle.store->add_product(handle.index, dy, rows(context->get_saved_variables()[0]));
    std::vector<int64_t> shape = gradients[0].sizes().vec();
    shape.back() = weight.size(1);
    return {product(dy, weight).view(shape), Tensor()};
  }
};

struct RmsNorm : Operation<RmsNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const WeightHandle& handle, double eps) {
    const Tensor x = input.contiguous();
    const auto [y, scale] = normed_rows(x, handle.weight(), eps);
    context->save_for_backward({x, scale});
    save_handle(context, handle);
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const WeightHandle handle = saved_handle(context);
    const auto saved = context->get_saved_variables();
    const auto [dx, dw] =
        normed_rows_backward(gradients[0].contiguous(), saved[0], handle.weight(), saved[1], handle.trains());
    if (handle.trains()) handle.store->add_gradient(handle.index, dw);
    return {dx, Tensor(), Tensor()};
  }
};

struct AddBias : Operation<AddBias> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const WeightHandle& handle) {
    save_handle(context, handle);
    return x + handle.weight();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const WeightHandle handle = saved_handle(context);
    if (handle.trains()) {
      const Tensor sum = rows(gradients[0]).sum(0, /*keepdim=*/false, at::kFloat);
      handle.store->add_gradient(handle.index, sum.view(handle.weight().sizes()));
    }
    return {gradients[0], Tensor()};
  }
};

struct Scale : Operation<Scale> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const WeightHandle& handle) {
    if (handle.trains()) context->save_for_backward({x});
    save_handle(context, handle);
    return x * handle.weight().view(-1);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const WeightHandle handle = saved_handle(context);
    const Tensor& dy = gradients[0];
    if (handle.trains()) {
      const Tensor x = context->get_saved_variables()[0];
      handle.store->add_gradient(handle.index, rows(dy.to(at::kFloat) * x).sum(0, /*keepdim=*/true));
    }
    return {dy * handle.weight().view(-1), Tensor()};
  }
};

struct SwiGlu : Operation<SwiGlu> {
  static Tensor forward(AutogradContext* context, const Tensor& gate_input, const Tensor& up_input) {
    const Tensor gate = gate_input.contiguous(), up = up_input.contiguous();
    context->save_for_backward({gate, up});
    return swiglu_rows(gate, up);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto [d_gate, d_up] = swiglu_rows_backward(gradients[0].contiguous(), saved[0], saved[1]);
    return {d_gate, d_up};
  }
};

struct Rotate : Operation<Rotate> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& table) {
    context->save_for_backward({table});
    return rotated(x.contiguous(), table, 1.0f);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {rotated(gradients[0].contiguous(), context->get_saved_variables()[0], -1.0f), Tensor()};
  }
};

/// The share of each frequency that is not divided by the factor, from its number n of rotations within the original
/// length. llama3: linear in n from low_freq_factor to high_freq_factor. yarn: linear in the frequency's index between
/// the indices for beta_fast and beta_slow rotations, which are rounded to whole ones.
Tensor unscaled_fraction(const Tensor& frequency, double theta, const RopeScaling& scaling) {
  const auto length = double(scaling.original_max_position_embeddings);
  if (scaling.rope_type == RopeType::llama3) {
    const double low = scaling.low_freq_factor, high = scaling.high_freq_factor;
    return ((frequency * (length / (2 * M_PI)) - low) / (high - low)).clamp(0, 1);
  }
  const auto width = double(2 * frequency.size(0));
  const auto index_of = [&](double n) { return width * std::log(length / (n * 2 * M_PI)) / (2 * std::log(theta)); };
  const double first = std::max(std::floor(index_of(scaling.beta_fast)), 0.0);
  const double last = std::min(std::ceil(index_of(scaling.beta_slow)), width - 1);
  const double step = first == last ? 0.001 : last - first;  // as transformers
  return 1 - ((at::arange(frequency.size(0), frequency.options()) - first) / step).clamp(0, 1);
}

Tensor scaled_frequencies(const Tensor& frequency, double theta, const RopeScaling& scaling) {
  const Tensor slow = frequency / scaling.factor;
  if (scaling.rope_type == RopeType::linear) return slow;
  const Tensor kept = unscaled_fraction(frequency, theta, scaling);
  return slow * (1 - kept) + frequency * kept;
}

}  // namespace

Tensor linear(const Tensor& x, const WeightHandle& weight) { return Linear::apply(x, weight); }
Tensor rms_norm(const Tensor& x, const WeightHandle& weight, double eps) { return RmsNorm::apply(x, weight, eps); }
Tensor add_bias(const Tensor& x, const WeightHandle& bias) { return AddBias::apply(x, bias); }
Tensor scale(const Tensor& x, const WeightHandle& weight) { return Scale::apply(x, weight); }
Tensor swiglu(const Tensor& gate, const Tensor& up) { return SwiGlu::apply(gate, up); }

Tensor rotary_table(int64_t positions, int64_t head_dim, double theta, const at::Device& device,
                    const std::optional<RopeScaling>& scaling) {
  const auto options = at::TensorOptions(at::kFloat);
  const Tensor exponent = at::arange(0, head_dim, 2, options) / double(head_dim);
  Tensor frequency = at::scalar_tensor(theta, options).pow(exponent).reciprocal();
  if (scaling) frequency = scaled_frequencies(frequency, theta, *scaling);
  const Tensor angle = at::outer(at::arange(positions, options), frequency);
  const double length = scaling && scaling->rope_type == RopeType::yarn ? scaling->attention_factor : 1.0;
  return at::complex(angle.cos() * length, angle.sin() * length).to(device);
}

Tensor rotate(const Tensor& x, const Tensor& table) { return Rotate::apply(x, table.contiguous()); }

}  // namespace wmtp
