// Step: a pipeline's view of one micro-batch. Through it a pipeline reads tensors, computes reductions over all ranks,
// keeps named state and reports metrics; it never sees a process group, a file or the optimizer.
//
// Shapes: B sequences of this rank's micro-batch, S positions, H heads. Head k (1-based) at SOURCE position s predicts
// the token at TARGET position s + k. Everything read from a Step is aligned by source position.
// Devices: the batch, every signal, leaf, valid() and uniform() are on one device, batch().tokens.device(): the CPU or
// this rank's CUDA device. Tensors that a plugin returns must be there too. counts(), answers() and pairs() are on the
// CPU. A result of Across is on the device of its input, a state on that of its `first`; a metric may be on either.
// Lifetime: a tensor from a Step is valid until the call returns, unless kept through `state`.
// Errors: an exception from a plugin ends the run on every rank with exit 3, the plugin's name and the message.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include <wmtp/export.hpp>

namespace wmtp {

using at::Tensor;

/// What a plugin wants to read, fp32:
///   policy.loss, policy.entropy        cross entropy of the target, and entropy of the predicted distribution over the
///                                      vocabulary, both in nats
///   policy.value:NAME                  a value head that `needs().heads` declares
///   reference.loss, reference.entropy  the same for the frozen model of [reference], aligned with the policy's heads
///   value.value                        the value head of the frozen model of [value]. A head that learned scores is
///                                      refused unless `needs().scores`
/// A value is defined AFTER the token at its position: V_t has seen tokens 0 … t.
struct Read {
  std::string model = "policy";
  std::string what = "loss";
};

/// The tokens of one micro-batch on this rank.
struct Batch {
  Tensor tokens;    ///< [B,S] int64
  Tensor kind;      ///< [B,S] uint8: 0 padding, 1 prompt, 2 answer; answers are targets, prompts with Needs::prompts
  Tensor sequence;  ///< [B] int64: index of the sequence in the run's order, the same in every layout; -1 for padding
  Tensor correct;   ///< [B] int64: whether the answer is right: 1 yes, 0 no, -1 unknown (no records, or padding)
  Tensor partner;   ///< [B] int64: row of the other answer to the same problem, -1 for none; only with Needs::pairs
};

/// Reductions over all ranks. [all ranks, collective: call them in the same order on every rank; otherwise the run ends
/// with an error that names the rank]
class WMTP_SDK_API Across {
 public:
  virtual ~Across();
  /// Sum of `values` over ranks, in rank order, so every rank gets the same bits. Any shape, equal on all ranks.
  virtual Tensor sum(const Tensor& values) = 0;
  /// `torch.quantile(values[valid], q)` (linear interpolation) over all ranks' elements: an fp32 scalar tensor.
  /// values: fp32, valid: bool of the same shape. NaN if no element is valid on any rank.
  virtual Tensor quantile(const Tensor& values, const Tensor& valid, double q) = 0;
  /// The same over this rank's elements only: no communication.
  virtual Tensor quantile_here(const Tensor& values, const Tensor& valid, double q) = 0;
  /// Where `score` is at least `threshold`, or below it by no more than rounding: 1e-5 + 1.3e-6 |threshold|, the
  /// tolerance within which PyTorch treats fp32 numbers as equal. Tokens in equal contexts have equal scores, but a
  /// matrix product rounds a row depending on its place in the batch, so `>=` would split them differently in each
  /// layout. This function keeps them together; ordering by score and position would not. No communication.
  static Tensor reaches(const Tensor& score, const Tensor& threshold) {
    return score >= threshold - (threshold.abs() * 1.3e-6 + 1e-5);
  }
};

/// One micro-batch, as a pipeline sees it. Created by the host, never by a plugin.
class WMTP_SDK_API Step {
 public:
  virtual ~Step();

  virtual const Batch& batch() const = 0;
  /// Not with When::token: ranks have different numbers of chunks, so their collectives would not match.
  virtual Across& across() = 0;
  /// Optimizer step, 1..N.
  virtual int64_t number() const = 0;
  /// Current head, 1-based, if the plugin is called once per head (When::token, When::head); otherwise 0.
  virtual int64_t head() const = 0;
  virtual int64_t heads() const = 0;
  virtual int64_t vocab_size() const = 0;

  /// A signal declared in `needs().reads`, detached, fp32, zero where not valid.
  /// Losses and entropies: with When::token [N], the tokens of the current chunk; with When::head [B,S], of `head()`;
  /// otherwise [B,S,H]. Values are always [B,S].
  virtual Tensor get(const Read& read) = 0;
  /// The same signal as a leaf that requires grad; the host differentiates what an objective computes from it.
  virtual Tensor leaf(const Read& read) = 0;
  /// Where a loss counts: bool, shaped like `get({"policy","loss"})` in this call. In a loss over value heads [B,S],
  /// true for the tokens that are targets.
  virtual Tensor valid() = 0;
  /// Valid tokens of each head over all ranks and micro-batches of the optimizer step: [H] fp64.
  virtual Tensor counts() = 0;
  /// Tokens of kind "answer", counted in the same way: a scalar, fp64. A loss over values divides by it.
  virtual Tensor answers() = 0;
  /// Pairs of answers (Needs::pairs), counted in the same way: a scalar, fp64.
  virtual Tensor pairs() = 0;
  /// Numbers in [0,1), shaped like `valid()`, drawn from (seed, step, sequence, position, head, stream), so the same in
  /// every layout. Not with When::token.
  virtual Tensor uniform(int64_t stream) = 0;

  /// A tensor that persists from step to step and is saved with the checkpoint; `first` is its initial value. It must
  /// be equal on all ranks: compute it from `across`.
  virtual Tensor& state(const std::string& name, const Tensor& first) = 0;
  /// Adds to a metric that is logged as sum/count over all ranks and micro-batches of the step. Scalars of any dtype.
  virtual void metric(const std::string& name, const Tensor& sum, const Tensor& count) = 0;
};

}  // namespace wmtp
