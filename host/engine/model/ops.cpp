#include "engine/model/ops.hpp"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "engine/model/kernels/tensors.hpp"
#include "engine/model/matrix_product.hpp"

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
    if (handle.trains()) context->save_for_backward({x});  // not needed for a frozen weight: frees the memory
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

/// Sums over rows are split into blocks of this size, so that they do not depend on the number of threads.
constexpr int64_t rows_of_block = 64;

struct RmsNorm : Function<RmsNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const WeightHandle& handle, double eps) {
    const Tensor x = input.contiguous(), weight = handle.weight();
    auto [y, scale] = kernels::takes(x) ? forward_rows(x, weight, eps) : forward_aten(x, weight, eps);
    context->save_for_backward({x, scale});
    save_handle(context, handle);
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const WeightHandle handle = saved_handle(context);
    const auto saved = context->get_saved_variables();
    const Tensor dy = gradients[0].contiguous(), weight = handle.weight();
    auto [dx, dw] = kernels::takes(dy) ? backward_rows(dy, saved[0], weight, saved[1], handle.trains())
                                       : backward_aten(dy, saved[0], weight, saved[1]);
    if (handle.trains()) handle.store->add_gradient(handle.index, dw);
    return {dx, Tensor(), Tensor()};
  }

 private:
  static std::pair<Tensor, Tensor> forward_rows(const Tensor& x, const Tensor& weight, double eps) {
    const int64_t width = x.size(-1), count = x.numel() / width;
    Tensor y = at::empty_like(x), scale = at::empty({count}, x.options().dtype(at::kFloat));
    kernels::by_type(x, [&]<class T>() {
      at::parallel_for(0, count, rows_of_block, [&](int64_t begin, int64_t end) {
        kernels::rows<T>().rms_norm(kernels::in<T>(x) + begin * width, kernels::in<T>(weight), float(eps),
                                    kernels::out<T>(y) + begin * width, kernels::out<float>(scale) + begin, end - begin,
                                    width);
      });
    });
    return {y, scale};
  }
  static std::pair<Tensor, Tensor> forward_aten(const Tensor& x, const Tensor& weight, double eps) {
    const Tensor wide = x.to(at::kFloat);
    const Tensor scale = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
    return {(wide * scale * weight).to(x.scalar_type()), scale};
  }
  static std::pair<Tensor, Tensor> backward_rows(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                                 const Tensor& scale, bool wants_dw) {
    const int64_t width = x.size(-1), count = x.numel() / width, blocks = (count + rows_of_block - 1) / rows_of_block;
    Tensor dx = at::empty_like(x), parts;
    if (wants_dw) parts = at::zeros({blocks, width}, at::kFloat);
    kernels::by_type(x, [&]<class T>() {
      at::parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
        for (int64_t block = first; block < last; ++block) {
          const int64_t begin = block * rows_of_block, n = std::min(rows_of_block, count - begin);
          kernels::rows<T>().rms_norm_backward(
              kernels::in<T>(dy) + begin * width, kernels::in<T>(x) + begin * width, kernels::in<T>(weight),
              kernels::in<float>(scale) + begin, kernels::out<T>(dx) + begin * width,
              wants_dw ? kernels::out<float>(parts) + block * width : nullptr, n, width);
        }
      });
    });
    return {dx, wants_dw ? parts.sum(0) : Tensor()};
  }
  static std::pair<Tensor, Tensor> backward_aten(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                                 const Tensor& scale) {
    const Tensor normed = x.to(at::kFloat) * scale, wide = dy.to(at::kFloat);
    const Tensor dn = wide * weight.to(at::kFloat);
    const Tensor along = (dn * normed).mean(-1, /*keepdim=*/true);
    return {((dn - normed * along) * scale).to(x.scalar_type()), rows(wide * normed).sum(0)};
  }
};

struct AddBias : Function<AddBias> {
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

struct Scale : Function<Scale> {
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

constexpr int64_t elements_of_task = 32768;

struct SwiGlu : Function<SwiGlu> {
  static Tensor forward(AutogradContext* context, const Tensor& gate_input, const Tensor& up_input) {
    const Tensor gate = gate_input.contiguous(), up = up_input.contiguous();
    context->save_for_backward({gate, up});
    if (!kernels::takes(gate)) return at::silu(gate).mul_(up);
    Tensor y = at::empty_like(gate);
    kernels::by_type(gate, [&]<class T>() {
      at::parallel_for(0, gate.numel(), elements_of_task, [&](int64_t begin, int64_t end) {
        kernels::rows<T>().swiglu(kernels::in<T>(gate) + begin, kernels::in<T>(up) + begin, kernels::out<T>(y) + begin,
                                  end - begin);
      });
    });
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &gate = saved[0], &up = saved[1], dy = gradients[0].contiguous();
    if (!kernels::takes(gate)) return {at::silu_backward(dy * up, gate), at::silu(gate).mul_(dy)};
    Tensor d_gate = at::empty_like(gate), d_up = at::empty_like(up);
    kernels::by_type(gate, [&]<class T>() {
      at::parallel_for(0, gate.numel(), elements_of_task, [&](int64_t begin, int64_t end) {
        kernels::rows<T>().swiglu_backward(kernels::in<T>(dy) + begin, kernels::in<T>(gate) + begin,
                                           kernels::in<T>(up) + begin, kernels::out<T>(d_gate) + begin,
                                           kernels::out<T>(d_up) + begin, end - begin);
      });
    });
    return {d_gate, d_up};
  }
};

/// x [B,S,H,D] rotated by `direction` times the angles; the gradient is rotated back.
Tensor turned(const Tensor& x, const Tensor& table, float direction) {
  if (!kernels::takes(x)) {
    const Tensor pairs = at::view_as_complex(x.to(at::kFloat).unflatten(-1, {-1, 2}));
    const Tensor factors = (direction > 0 ? table : table.conj().resolve_conj()).unsqueeze(1);
    return at::view_as_real(pairs * factors).flatten(-2).to(x.scalar_type());
  }
  const int64_t S = x.size(1), heads = x.size(2), width = x.size(3);
  Tensor y = at::empty_like(x);
  const float* angles = static_cast<const float*>(table.const_data_ptr());
  kernels::by_type(x, [&]<class T>() {
    at::parallel_for(0, x.size(0) * S, rows_of_block, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        kernels::rows<T>().rotate(kernels::in<T>(x) + row * heads * width, angles + row % S * width, direction,
                                  kernels::out<T>(y) + row * heads * width, heads, width);
    });
  });
  return y;
}

struct Rotate : Function<Rotate> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& table) {
    context->save_for_backward({table});
    return turned(x.contiguous(), table, 1.0f);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {turned(gradients[0].contiguous(), context->get_saved_variables()[0], -1.0f), Tensor()};
  }
};

/// With n rotations within the original length: divided by the factor if n is below low_freq_factor, unchanged if above
/// high_freq_factor, and interpolated linearly in n between the two.
Tensor stretched(const Tensor& frequency, const RopeScaling& scaling) {
  const Tensor slow = frequency / scaling.factor;
  if (scaling.rope_type == "linear") return slow;
  const double low = scaling.low_freq_factor, high = scaling.high_freq_factor;
  const Tensor turns = frequency * (double(scaling.original_max_position_embeddings) / (2 * M_PI));
  const Tensor kept = ((turns - low) / (high - low)).clamp(0, 1);
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
  if (scaling) frequency = stretched(frequency, *scaling);
  const Tensor angle = at::outer(at::arange(positions, options), frequency);
  return at::complex(angle.cos(), angle.sin()).to(device);
}

Tensor rotate(const Tensor& x, const Tensor& table) { return Rotate::apply(x, table.contiguous()); }

}  // namespace wmtp
