// Steps: a pipeline's view of one micro-batch. There is one type for each moment at which a pipeline is called; a type
// offers only what is available at its moment:
//
//   TokenStep   a chunk of one head's tokens, inside the loss            tensors [N]
//   HeadStep    one head, whole micro-batch                              tensors [B,S]
//   BatchStep   all heads, whole micro-batch                             tensors [B,S,H]
//   ValueStep   a loss over value heads, whole micro-batch               tensors [B,S]
//
// A HeadStep and a BatchStep are TokenSteps too: elementwise code for a chunk also works on a whole head. A plugin
// never sees a process group, a file or the optimizer.
//
// Shapes: B sequences of this rank's micro-batch, S positions, H heads. Head k (1-based) at SOURCE position s predicts
// the token at TARGET position s + offset(k): s + k, unless model.future_offsets says otherwise. Everything read from a
// step is aligned by source position.
// Devices: the batch, every signal, value, leaf(), valid() and uniform() are on one device, that of valid(): the CPU or
// this rank's CUDA device. Tensors that a plugin returns must be there too. counts(), answer_tokens() and pairs() are
// on the CPU. A result of Collectives is on the device of its input, a state on that of its `first`; a metric may be on
// either. Lifetime: a tensor from a step is valid until the call returns, unless kept through `state`.
// Errors: an exception from a plugin ends the run on every rank with exit 3, the plugin's name and the message.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>
#include <wmtp/export.hpp>

namespace wmtp {

using at::Tensor;

/// A number for each token, fp32, computed only if it is read: of the policy's prediction of the target, of that of the
/// frozen model of [reference], aligned with the policy's heads, or of the target in the data.
enum class Signal {
  policy_loss,       ///< cross entropy, in nats
  policy_entropy,    ///< entropy of the predicted distribution over the vocabulary, in nats
  policy_rank,       ///< number of tokens with a larger logit than the target: 0 for the likeliest, also if it is tied
  policy_margin,     ///< logit of the target minus the largest of the others: log p(target) - log p(best other)
  policy_top_mass,   ///< sum of the probabilities of the Needs::top_k likeliest tokens, at most 1
  policy_agreement,  ///< 1 if the head's likeliest token is head 1's for the same target, else 0; of head 1: 1
  /// policy_loss of the step before that last read the token, an epoch ago; policy_loss itself if none has
  policy_previous_loss,
  /// Cosine, from -1 to 1, of the head's gradient and head 1's with respect to the trunk's output at the source
  /// position, each of a loss in which all tokens have weight 1; 0 where one of them is 0; of head 1: 1. Available at
  /// any moment. Costs a backward pass through the heads, for which only a pipeline that reads it pays.
  policy_alignment,
  reference_loss,     ///< as policy_loss
  reference_entropy,  ///< as policy_entropy
  data_weight,        ///< `weight` and `weights` of the record; 1 for a record without them
  data_bytes,         ///< length of the token's text in UTF-8 bytes; 0 for a special token
  data_correct,       ///< is_correct of the record: 1 or 0
  data_pass_rate,     ///< share of right answers among the data's records with the same task_id
};

/// Signal::reference_loss or Signal::reference_entropy of the frozen model of [references.NAME].
struct ReferenceSignal {
  std::string name;  ///< NAME
  Signal signal = Signal::reference_loss;
};

/// A number for each position, fp32, from a value head. It is defined AFTER the token at its position: V_t has seen
/// tokens 0 … t.
class ValueSignal {
 public:
  /// A value head of the policy that `needs().heads` declares.
  static ValueSignal of_policy(std::string head) { return ValueSignal(std::move(head)); }
  /// The value head of the frozen model of [value]. One that learned scores is refused unless `needs().scores`.
  static ValueSignal frozen() { return ValueSignal(""); }
  bool is_frozen() const { return head_.empty(); }
  const std::string& head() const { return head_; }

 private:
  explicit ValueSignal(std::string head) : head_(std::move(head)) {}
  std::string head_;
};

/// The tokens of one micro-batch on this rank.
struct Batch {
  Tensor tokens;    ///< [B,S] int64
  Tensor kind;      ///< [B,S] uint8: 0 padding, 1 prompt, 2 answer; answers are targets, prompts with Needs::prompts
  Tensor sequence;  ///< [B] int64: index of the sequence in the run's order, the same in every layout; -1 for padding
  Tensor correct;   ///< [B] int64: whether the answer is right: 1 yes, 0 no, -1 unknown (no records, or padding)
  Tensor partner;   ///< [B] int64: row of the other answer to the same problem, -1 for none; only with Needs::pairs
};

/// Reductions over all ranks. [all ranks, collective: call them in the same order on every rank; otherwise the run
/// fails with an error that names the rank]
class WMTP_SDK_API Collectives {
 public:
  virtual ~Collectives();
  /// Sum of `values` over ranks, in rank order, so every rank gets the same bits. Any shape, equal on all ranks.
  virtual Tensor sum(const Tensor& values) = 0;
  /// `torch.quantile(values[valid], q)` (linear interpolation) over all ranks' elements: an fp32 scalar tensor.
  /// values: fp32, valid: bool of the same shape. NaN if no element is valid on any rank.
  virtual Tensor quantile(const Tensor& values, const Tensor& valid, double q) = 0;
  /// The same over this rank's elements only: no communication.
  virtual Tensor quantile_here(const Tensor& values, const Tensor& valid, double q) = 0;
};

/// Mask: `score` is at least `threshold`, or below it only by rounding: 1e-5 + 1.3e-6 |threshold|, the tolerance within
/// which PyTorch treats fp32 numbers as equal. Tokens in equal contexts have equal scores, but a matrix product rounds
/// a row depending on its place in the batch, so `>=` would split them differently in each layout. This function keeps
/// them together; ordering by score and position would not. No communication.
inline Tensor reaches(const Tensor& score, const Tensor& threshold) {
  return score >= threshold - (threshold.abs() * 1.3e-6 + 1e-5);
}

/// Common to all moments. Steps are created by the host, never by a plugin.
class WMTP_SDK_API Step {
 public:
  virtual ~Step();
  /// Optimizer step, 1..total(). Where nothing is trained, as in a validation, the last complete one: 0 before the
  /// first. A schedule (Scheduled::at) thus has about the value there that it has in training.
  virtual int64_t number() const = 0;
  /// The run's optimizer steps. A resumed run can have more than it had before.
  virtual int64_t total() const = 0;
  /// 0 at the first step, 1 at the last.
  double progress() const {
    return double(std::max<int64_t>(number() - 1, 0)) / double(std::max<int64_t>(total() - 1, 1));
  }
  virtual int64_t heads() const = 0;
  /// How many positions after its source the target of a head is. `head`: 1 to heads().
  virtual int64_t offset(int64_t head) const = 0;
  virtual int64_t vocab_size() const = 0;
  /// Valid tokens of each head over all ranks and micro-batches of the optimizer step: [H] fp64.
  virtual Tensor counts() = 0;
  /// Tokens of kind "answer", counted in the same way: a scalar, fp64. A loss over values divides by it.
  virtual Tensor answer_tokens() = 0;
  /// Pairs of answers (Needs::pairs), counted in the same way: a scalar, fp64.
  virtual Tensor pairs() = 0;
  /// Mask of the tokens that count in the loss: bool, in this moment's shape. In a ValueStep: the target tokens.
  virtual Tensor valid() = 0;
  /// Adds to a metric that is logged as sum/count over all ranks and micro-batches of the step. Scalars of any dtype.
  virtual void metric(const std::string& name, const Tensor& sum, const Tensor& count) = 0;
};

/// Common to the moments that see a whole micro-batch; they are called equally often on all ranks.
class WMTP_SDK_API WholeBatch {
 public:
  virtual ~WholeBatch();
  virtual const Batch& batch() const = 0;
  virtual Collectives& collectives() = 0;
  /// A value declared in `needs().values`, detached: [B,S].
  virtual Tensor value(const ValueSignal& value) = 0;
  /// Numbers in [0,1), shaped like valid(), drawn from (seed, step, sequence, position, head, stream), so the same in
  /// every layout.
  virtual Tensor uniform(int64_t stream) = 0;
  /// A tensor that persists from step to step and is saved with the checkpoint; `first` is its initial value. It must
  /// be equal on all ranks: compute it from `collectives`.
  virtual Tensor& state(const std::string& name, const Tensor& first) = 0;
};

/// The tokens of one head in a chunk: [N]. (HeadStep: [B,S]; BatchStep: [B,S,H].)
class WMTP_SDK_API TokenStep : public Step {
 public:
  ~TokenStep() override;
  /// The current head, 1-based; 0 in a BatchStep.
  virtual int64_t head() const = 0;
  /// A signal declared in `needs().reads`, detached, shaped like valid(), zero where not valid.
  virtual Tensor get(Signal signal) = 0;
  /// The same for one declared in `needs().references`.
  virtual Tensor get(const ReferenceSignal& signal) = 0;
};

/// One head of the micro-batch: [B,S].
class WMTP_SDK_API HeadStep : public TokenStep, public WholeBatch {
 public:
  ~HeadStep() override;
};

/// All heads of the micro-batch: [B,S,H].
class WMTP_SDK_API BatchStep : public TokenStep, public WholeBatch {
 public:
  ~BatchStep() override;
};

/// The micro-batch in a loss over value heads: [B,S].
class WMTP_SDK_API ValueStep : public Step, public WholeBatch {
 public:
  ~ValueStep() override;
  /// A policy value head as a leaf that requires grad; the host backpropagates the loss through it.
  virtual Tensor leaf(const ValueSignal& value) = 0;
};

}  // namespace wmtp
