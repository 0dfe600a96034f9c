// Step: all that a pipeline may know about one micro-batch. It reads tensors, asks questions that need every rank,
// keeps named state and reports metrics; it never sees a process group, a file or the optimizer.
//
// Shapes: B sequences of this rank's micro-batch, S positions, H heads. Head k (1-based) predicts at SOURCE position s
// the token at TARGET position s + k. Everything read from a Step is aligned by source position.
// Devices: the batch, every signal, leaf, valid() and uniform() are on one device, batch().tokens.device(): the CPU or
// this rank's CUDA device. What a plugin returns must be there too. counts(), answers() and pairs() are on the CPU. An
// answer of Across is where the question's values are, a state is where its `first` is, and a metric may be on either.
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

/// What a plugin wants to read, fp32:
///   policy.loss, policy.entropy        cross entropy of the target, and entropy of the distribution over the vocabulary
///                                      that it was predicted with, both in nats
///   policy.value:NAME                  a value head that `needs().heads` declares
///   reference.loss, reference.entropy  the same of the frozen model of [reference], aligned with the policy's heads
///   value.value                        the frozen model of [value]: its value head. One that learned scores is refused
///                                      unless `needs().scores`
/// A value stands AFTER the token at its position: V_t has seen tokens 0 … t.
struct Read {
  std::string model = "policy";
  std::string what = "loss";
};

/// The tokens of one micro-batch on this rank.
struct Batch {
  Tensor tokens;    ///< [B,S] int64
  Tensor kind;      ///< [B,S] uint8: 0 padding, 1 prompt, 2 answer; targets are answers, with Needs::prompts prompts too
  Tensor sequence;  ///< [B] int64: position of the sequence in the run's order; the same in every layout; -1 for padding
  Tensor correct;   ///< [B] int64: whether the answer is right: 1 yes, 0 no, -1 not known (no records, or padding)
  Tensor partner;   ///< [B] int64: row of the other answer to the same problem, -1 none; given with Needs::pairs
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
  /// Where `score` is at least `threshold`, or below it by no more than rounding: 1e-5 + 1.3e-6 |threshold|, the
  /// tolerance at which PyTorch takes fp32 numbers for equal. Tokens in equal contexts have equal scores, but a matrix
  /// product rounds a row by where it stands in the batch, so that `>=` splits them, in each layout otherwise. Here all
  /// of them are on one side; an order by score and position would follow the rounding. No question to other ranks.
  static Tensor reaches(const Tensor& score, const Tensor& threshold) {
    return score >= threshold - (threshold.abs() * 1.3e-6 + 1e-5);
  }
};

/// One micro-batch, as a pipeline sees it. Made by the host, never by a plugin.
class WMTP_SDK_API Step {
 public:
  virtual ~Step();

  virtual const Batch& batch() const = 0;
  /// Not with When::token: ranks have different numbers of chunks, so their questions would not meet.
  virtual Across& across() = 0;
  /// Optimizer step, 1..N.
  virtual int64_t number() const = 0;
  /// Head in hand, 1-based, when the plugin is called once a head (When::token, When::head); otherwise 0.
  virtual int64_t head() const = 0;
  virtual int64_t heads() const = 0;
  virtual int64_t vocab_size() const = 0;

  /// A signal declared in `needs().reads`, detached, fp32, with zeros where not valid.
  /// Losses and entropies. When::token: [N], the tokens of the chunk in hand. When::head: [B,S] for `head()`. Otherwise
  /// [B,S,H]. Values are [B,S] whatever the call.
  virtual Tensor get(const Read& read) = 0;
  /// The same signal as a leaf that requires grad; what an objective computes from it is differentiated by the host.
  virtual Tensor leaf(const Read& read) = 0;
  /// Where a loss counts: bool, shaped like `get({"policy","loss"})` of this call. In a loss over value heads [B,S]: the
  /// tokens that are targets.
  virtual Tensor valid() = 0;
  /// Valid tokens of each head over all ranks and micro-batches of the optimizer step: [H] fp64.
  virtual Tensor counts() = 0;
  /// Tokens of kind "answer", the same way: a scalar, fp64. What a loss over values divides by.
  virtual Tensor answers() = 0;
  /// Pairs of answers (Needs::pairs), the same way: a scalar, fp64.
  virtual Tensor pairs() = 0;
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
