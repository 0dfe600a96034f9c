// Adapters: what is trained, and what stands beside a linear layer's weight. The host owns all parameters; an adapter
// declares them by name and uses them through a Call, so it never holds a tensor that the host has to shard.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <wmtp/options.hpp>
#include <wmtp/step.hpp>

namespace wmtp {

/// A linear layer of the model: y = x W^T, W [out,in].
struct Slot {
  std::string name;  ///< "layers.3.attention.wq", "extra_heads.0.feed_forward.w1"
  int64_t in = 0;
  int64_t out = 0;
};

/// A parameter that an adapter puts beside a slot; its full name is the slot's name + "." + name.
struct Param {
  std::string name;                   ///< "lora_A"
  std::vector<int64_t> shape;         ///< two dimensions: [rows, columns]
  /// row_norms: Euclidean norms of the rows of the slot's weight as training starts, drawn or read; shape [1,out].
  enum class Init { zeros, uniform, row_norms } init = Init::zeros;
  double bound = 0;                   ///< uniform: drawn from (-bound, bound), keyed by (seed, full name)
  double lr_scale = 1;                ///< its learning rate, in parts of the optimizer's; above 0
  bool decays = true;                 ///< whether weight decay applies
};

/// One use of a slot. Made by the host; valid during `forward`. base, linear, scale and dropout are differentiable in
/// x, linear and scale in their parameter too: the host takes a parameter's gradient, autograd sees x alone.
class WMTP_SDK_API Call {
 public:
  virtual ~Call();
  virtual bool training() const = 0;
  /// x W^T with the slot's own weight, x [..., in].
  virtual Tensor base(const Tensor& x) = 0;
  /// x P^T with a declared two-dimensional parameter P [rows, columns], x [..., columns].
  virtual Tensor linear(const Tensor& x, const std::string& param) = 0;
  /// x * P with a declared P [1, columns], x [..., columns].
  virtual Tensor scale(const Tensor& x, const std::string& param) = 0;
  /// The slot's own weight [out,in], and a declared parameter, as they are; what is computed from them has no gradient.
  virtual Tensor weight() = 0;
  virtual Tensor value(const std::string& param) = 0;
  /// Zeroes each element with probability p and scales the rest by 1/(1-p); drawn from (seed, step, sequence, slot), so
  /// equal when the forward pass runs again, and in every layout. The identity when not training.
  virtual Tensor dropout(const Tensor& x, double p) = 0;
};

/// [all ranks; one instance a rank]
class WMTP_SDK_API Adapter {
 public:
  virtual ~Adapter();
  virtual void options(Options&) {}
  /// Whether a parameter of the model itself is trained, by its name (Meta's). Declared ones always are.
  virtual bool trains(const std::string& parameter) const = 0;
  /// Parameters beside this slot, the same whenever it is asked; empty leaves the slot as it is. [before start, at save]
  virtual std::vector<Param> declare(const Slot&) const { return {}; }
  /// The slot's output [..., out], of x's type and on x's device, as is all that `call` gives: the CPU or this rank's
  /// CUDA device. Called only where `declare` gave parameters.
  virtual Tensor forward(const Slot&, const Tensor& x, Call& call) const { return call.base(x); }
  /// The weight with the adapter folded in, fp32 [out,in] on the CPU: what `forward` does with it when not training.
  /// `weight` and `params`, in the order of `declare`, are fp32 on the CPU. For `model/` at the end.
  virtual Tensor merged(const Slot&, const Tensor& weight, const std::vector<Tensor>& params) const { return weight; }
};

}  // namespace wmtp
