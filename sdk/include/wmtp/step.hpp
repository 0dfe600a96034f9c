// Step: all that a pipeline may know about one micro-batch. It reads tensors, asks questions that need every rank,
// keeps named state and reports metrics; it never sees a process group, a file or the optimizer.
//
// Shapes: B sequences of this rank's micro-batch, S positions, H heads. Head k (1-based) predicts at SOURCE position s
// the token at TARGET position s + k. Everything read from a Step is aligned by source position.
// Lifetime: a tensor that comes from a Step is valid until the call returns, unless kept through `state`.
// Errors: whatever a plugin throws ends the run on every rank with exit 3, the plugin's name and the text.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include <wmtp/export.hpp>

namespace wmtp {

using at::Tensor;

/// What a plugin wants to read. model: "policy", "reference". what: "loss" (cross entropy in nats), "value:NAME".
struct Read {
  std::string model = "policy";
  std::string what = "loss";
};

/// The tokens of one micro-batch on this rank.
struct Batch {
  Tensor tokens;    ///< [B,S] int64
  Tensor kind;      ///< [B,S] uint8: 0 padding, 1 prompt, 2 answer; only answers are targets
  Tensor sequence;  ///< [B] int64: global index of the sequence in its epoch's order; the same in every layout
};

/// Questions that need every rank. [all ranks, collective: call them in the same order on every rank, or the run ends
/// with an error that names the rank]
class WMTP_SDK_API Across {
 public:
  virtual ~Across();
  /// Sum of `values` over ranks, in rank order, so the same bits on every rank. Any shape, equal on all ranks.
  virtual Tensor sum(const Tensor& values) = 0;
  /// `torch.quantile(values[valid], q)` (linear interpolation) over all ranks' elements: a scalar tensor of fp32.
  /// values: fp32, valid: bool of the same shape. NaN when no element is valid anywhere.
  virtual Tensor quantile(const Tensor& values, const Tensor& valid, double q) = 0;
  /// The same over this rank's elements alone: no communication.
  virtual Tensor quantile_here(const Tensor& values, const Tensor& valid, double q) = 0;
};

/// One micro-batch, as a pipeline sees it. Made by the host, never by a plugin.
class WMTP_SDK_API Step {
 public:
  virtual ~Step();

  virtual const Batch& batch() const = 0;
  virtual Across& across() = 0;
  /// Optimizer step, 1..N.
  virtual int64_t number() const = 0;
  /// Head in hand, 1-based, when the plugin is called once a head (When::token, When::head); otherwise 0.
  virtual int64_t head() const = 0;
  virtual int64_t heads() const = 0;

  /// A signal declared in `needs().reads`, detached, fp32, with zeros where not valid.
  /// When::token: [N], the tokens of the chunk in hand. When::head: [B,S] for `head()`. Otherwise [B,S,H].
  /// "value:NAME" is [B,S] whatever the call.
  virtual Tensor get(const Read& read) = 0;
  /// The same signal as a leaf that requires grad; what an objective computes from it is differentiated by the host.
  virtual Tensor leaf(const Read& read) = 0;
  /// Where a loss counts: bool, shaped like `get({"policy","loss"})` of this call.
  virtual Tensor valid() = 0;
  /// Valid tokens of each head over all ranks and micro-batches of the optimizer step: [H] fp64.
  virtual Tensor counts() = 0;
  /// Numbers in [0,1), shaped like `valid()`, drawn from (seed, step, sequence, position, head, stream): equal in every
  /// layout. Not with When::token.
  virtual Tensor uniform(int64_t stream) = 0;

  /// A tensor that lives from step to step and is saved with the checkpoint; `first` is its value before the first use.
  /// It must be equal on all ranks: compute it from `across`.
  virtual Tensor& state(const std::string& name, const Tensor& first) = 0;
  /// Adds to a metric logged as sum/count over all ranks and micro-batches of the step. Scalars of any dtype.
  virtual void metric(const std::string& name, const Tensor& sum, const Tensor& count) = 0;
};

}  // namespace wmtp
