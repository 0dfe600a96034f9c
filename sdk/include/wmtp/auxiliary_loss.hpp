// Auxiliary losses: a number for each token, computed from the logits of its prediction, that is added to the weighted
// cross entropy. Label smoothing, the distance to another model's or another head's distribution, and losses over
// several possible next tokens are of this kind. A weighting, in contrast, scales the cross entropy of the one target.
#pragma once

#include <cstdint>
#include <wmtp/options.hpp>
#include <wmtp/step.hpp>

namespace wmtp {

/// What an auxiliary loss needs from the host besides the head's own logits; queried once, after `options()`.
struct LogitsNeeds {
  bool reference = false;  ///< logits of the frozen model of [reference], computed in every step
  bool head_1 = false;     ///< logits of the policy's head 1, which has read all tokens before the target
  int64_t upcoming = 0;    ///< number of tokens after the source
  bool correct = false;    ///< whether the answer is right; refused for packed records
};

/// A chunk of one head's tokens, with N tokens and V entries of the vocabulary. All tensors are on the device of
/// valid(), which is true everywhere. N may be 0. The chunks of a step differ between layouts, so a loss must depend on
/// its own token only. [called once per chunk, not equally often on all ranks: no communication]
class WMTP_SDK_API LogitsStep : public Step {
 public:
  ~LogitsStep() override;
  /// The current head, 1-based.
  virtual int64_t head() const = 0;
  /// [N,V] fp32, a leaf that requires grad. The host differentiates the returned loss to it.
  virtual Tensor logits() = 0;
  /// [N] int64: the token to predict.
  virtual Tensor targets() = 0;
  /// [N,V] fp32, detached, for the same targets: only with LogitsNeeds::reference. Of the reference's own head or of
  /// its next-token head, as [reference] heads says.
  virtual Tensor reference_logits() = 0;
  /// [N,V] fp32, detached, for the same targets: only with LogitsNeeds::head_1.
  virtual Tensor head_1_logits() = 0;
  /// [N, LogitsNeeds::upcoming] int64: the tokens at positions s + 1, s + 2, ... of a source position s, whatever the
  /// head; -1 for padding and tokens of another document or sequence.
  virtual Tensor upcoming() = 0;
  /// [N] int64: whether the answer that the token belongs to is right: 1 yes, 0 no, -1 unknown; only with
  /// LogitsNeeds::correct.
  virtual Tensor correct() = 0;
};

/// A loss of logits. [all ranks; one instance per rank; called from the training thread, with grad on]
/// The host adds, for each head, its head weight times the mean over the head's targets of the step, divided by the
/// number of heads: as for a cross entropy with weight 1, whatever the weighting and train.normalize.
class WMTP_SDK_API AuxiliaryLoss {
 public:
  virtual ~AuxiliaryLoss();
  virtual void options(Options&) {}
  virtual LogitsNeeds needs() const { return {}; }
  /// Whether a head has this loss; queried once for each. A head without it costs nothing.
  virtual bool applies(int64_t /*head*/) const { return true; }
  /// [N] fp32: each token's loss.
  virtual Tensor loss(LogitsStep& step) = 0;
};

}  // namespace wmtp
