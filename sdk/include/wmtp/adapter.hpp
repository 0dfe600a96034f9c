// Adapters: which parameters train, and which are added to linear layers. The host owns all parameters; an adapter
// declares them by name and uses them through a LinearCall, so it never holds a tensor that the host has to shard.
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <wmtp/options.hpp>
#include <wmtp/step.hpp>

namespace wmtp {

/// A linear layer of the model: y = x W^T, W [out,in].
struct Linear {
  std::string name;  ///< "layers.3.attention.wq", "extra_heads.0.feed_forward.w1"
  int64_t in = 0;
  int64_t out = 0;
};

/// Which dimension of its layer a parameter's dimension follows: none, `in` or `out`. The host checks the sizes. Tensor
/// parallelism cuts the parameter where it cuts the layer; other sharding ignores it.
enum class Cut { none, in, out };

/// A parameter that an adapter adds to a linear layer; its full name is the layer's name + "." + name.
struct Param {
  std::string name;            ///< "lora_A"
  std::vector<int64_t> shape;  ///< two dimensions: [rows, columns]
  /// row_norms: Euclidean norms of the rows of the layer's weight, drawn or loaded, when training starts; shape
  /// [1,out].
  enum class Init { zeros, uniform, row_norms } init = Init::zeros;
  double bound = 0;     ///< uniform: drawn from (-bound, bound), keyed by (seed, full name)
  double lr_scale = 1;  ///< its learning rate relative to the optimizer's; above 0
  bool decays = true;   ///< whether weight decay applies
  Cut rows = Cut::none, columns = Cut::none;
};

/// One use of a linear layer. Created by the host; valid during `forward`. base, linear, scale and dropout are
/// differentiable in x; linear and scale also in their parameter: the host computes a parameter's gradient, autograd
/// only that of x.
///
/// Under tensor parallelism a rank has a piece of the layer: one dimension of `Linear`, and of the parameters and of x
/// that follow it, has the piece's size. A product with a weight or parameter that is cut by `in` is a sum over ranks,
/// which the host completes; its result has the rank's own positions, fewer than x has.
class WMTP_SDK_API LinearCall {
 public:
  virtual ~LinearCall();
  virtual bool training() const = 0;
  /// x W^T with the layer's own weight, x [..., in].
  virtual Tensor base(const Tensor& x) = 0;
  /// x P^T with a declared two-dimensional parameter P [rows, columns], x [..., columns].
  virtual Tensor linear(const Tensor& x, const std::string& param) = 0;
  /// x * P with a declared P [1, columns], x [..., columns].
  virtual Tensor scale(const Tensor& x, const std::string& param) = 0;
  /// The layer's own weight [out,in], and a declared parameter, unchanged, with whole rows for this rank's outputs.
  /// Results computed from them have no gradient.
  virtual Tensor weight() = 0;
  virtual Tensor value(const std::string& param) = 0;
  /// Zeroes each element with probability p and scales the rest by 1/(1-p). Drawn from (seed, step, sequence, layer),
  /// so it is the same in every layout and when the forward pass is recomputed. The identity when not training.
  virtual Tensor dropout(const Tensor& x, double p) = 0;
};

/// Which parameters of the model train. [all ranks; one instance per rank]
class WMTP_SDK_API Adapter {
 public:
  virtual ~Adapter();
  virtual void options(Options&) {}
  /// Whether a parameter of the model itself trains, by its name (Meta's). Declared parameters always train. Not called
  /// where the experiment chooses the parameters of the model: `[adapter] train` and `train_last` replace this choice.
  virtual bool trains(const std::string& parameter) const = 0;
};

/// An adapter that adds parameters to linear layers. [all ranks; one instance per rank]
class WMTP_SDK_API LinearAdapter : public Adapter {
 public:
  ~LinearAdapter() override;
  /// All linear layers of the model, once before the first call of `declare`. Throw BadOption for an option that names
  /// layers and fits none of them. [before start, at save]
  virtual void check(const std::vector<Linear>&) const {}
  /// Parameters added to this layer, the same in every call; an empty list leaves the layer unchanged. [before start,
  /// at save]
  virtual std::vector<Param> declare(const Linear&) const = 0;
  /// The layer's output [..., out], with x's dtype and device, like all results of `call`: the CPU or this rank's CUDA
  /// device. Called only for layers for which `declare` returned parameters.
  virtual Tensor forward(const Linear&, const Tensor& x, LinearCall& call) const = 0;
  /// The weight with the adapter merged, fp32 [out,in] on the CPU, equivalent to `forward` when not training. `weight`
  /// and `params`, in the order of `declare`, are fp32 on the CPU. Used for `model/` at the end.
  virtual Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>& params) const = 0;
};

}  // namespace wmtp
