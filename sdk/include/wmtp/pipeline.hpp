// Pipelines: a weighting computes a weight for each token; an objective is a loss over leaves such as value heads.
// Both declare the signals they read and when they can be called; the host computes those signals and no others.
#pragma once

#include <string>
#include <utility>
#include <vector>
#include <wmtp/options.hpp>
#include <wmtp/step.hpp>

namespace wmtp {

/// The earliest moment at which a weighting can be computed, which determines the step passed to `weigh`. The later the
/// moment, the more the host computes first.
enum class When {
  token,   ///< TokenStep: depends only on the token's own signals; called inside the loss, chunk by chunk, in one pass
  before,  ///< BatchStep: does not need the policy's losses; called once, before the heads; one pass
  head,    ///< HeadStep: needs the losses of one head; called once per head, in order, after a loss-only pass
  all,     ///< BatchStep: needs the losses of all heads; called once, after a loss-only pass over all heads
};

/// A value head on the policy's normalized trunk output: one number per position, fp32, ValueSignal::of_policy(name).
/// With d the model's width, "linear" is d -> 1, "mlp" is d -> d/4 -> d/8 -> 1 with GELU between the layers; both have
/// biases, and the last layer is initially zero.
struct ValueHead {
  std::string name;
  std::string kind = "linear";
  /// What the head learns, stored with the saved model: "value", an expected outcome; or "score", which ranks answers
  /// to the same problem and is determined only up to a constant added to all of them, as with a loss over pairs.
  std::string meaning = "value";
  /// Probability with which training drops an input of each of its linear layers; the others are scaled by its
  /// complement's inverse. Frozen and evaluated models drop none.
  double dropout = 0;
};

/// What a pipeline needs from the host; queried once, after `options()`. [before start]
struct Needs {
  When when = When::before;
  std::vector<Signal> reads = {};
  int64_t top_k = 0;  ///< number of tokens of Signal::policy_top_mass, at least 1 if it is read
  std::vector<ReferenceSignal> references = {};
  std::vector<ValueSignal> values = {};
  std::vector<ValueHead> heads = {};
  bool signed_weights = false;  ///< weights may be negative, otherwise an error; not with train.normalize = "weights"
  bool pairs = false;           ///< a right and a wrong answer to the same problem, in neighbouring rows; records only
  bool prompts = false;         ///< prompt tokens are targets too
  /// Only differences of the frozen value are used, so a head that learned scores is accepted.
  bool scores = false;
};

/// Weights with an explicit meaning, never inferred from the shape. fp32 on the batch's device, finite.
struct Weights {
  enum class Meaning { uniform, by_target, by_source };
  Meaning meaning = Meaning::uniform;
  Tensor values;
  /// At most this fraction of the call's valid tokens, over all ranks, has a weight other than 0; over 0, at most 1. At
  /// When::head it avoids waiting for a GPU to count them; if more have one, the step runs once more and counts them.
  /// At other moments only `plan` reads it, for which an average will do.
  double max_nonzero_share = 1;

  static Weights uniform() { return {}; }
  /// [B,S]: the weight of the token AT a position, for every head that predicts it.
  static Weights by_target(Tensor values, double max_nonzero_share = 1) {
    return {Meaning::by_target, std::move(values), max_nonzero_share};
  }
  /// The weight of the loss AT a source position, shaped like valid() of the same step.
  static Weights by_source(Tensor values, double max_nonzero_share = 1) {
    return {Meaning::by_source, std::move(values), max_nonzero_share};
  }
};

/// A weight for every token. [all ranks; one instance per rank; called from the training thread, with grad off]
/// Override the `weigh` of the moment that `needs().when` names. A wrapper may also call the `weigh` of a TokenStep at
/// a later moment.
class WMTP_SDK_API Weighting {
 public:
  virtual ~Weighting();
  virtual void options(Options&) {}
  virtual Needs needs() const = 0;
  virtual Weights weigh(TokenStep& step);
  virtual Weights weigh(HeadStep& step) { return weigh(static_cast<TokenStep&>(step)); }
  virtual Weights weigh(BatchStep& step) { return weigh(static_cast<TokenStep&>(step)); }
  /// A loss of the value heads that `needs()` declares, added to the weighted token loss; called before `weigh` of the
  /// same micro-batch, with grad on. Same contract as Objective::loss.
  virtual Tensor value_loss(ValueStep&) { return {}; }
};

/// A weighting that modifies another one, that of the experiment's [pipeline.inner]: shuffled, clipped, mean-one. Its
/// `needs()` includes the inner weighting's needs; the host calls only the wrapper, which calls `inner().weigh(step)`
/// at the same moment. It overrides the `weigh` of every moment that its `needs()` can return.
class WMTP_SDK_API Wrapper : public Weighting {
 public:
  ~Wrapper() override;
  /// [called by the host only, after both have their options and before `needs()`]
  void wrap(Weighting& inner) { inner_ = &inner; }
  /// The loss of the inner weighting, whose value heads also train under a wrapper.
  Tensor value_loss(ValueStep& step) override { return inner_->value_loss(step); }

 protected:
  Weighting& inner() const { return *inner_; }

 private:
  Weighting* inner_ = nullptr;
};

/// A loss over leaves that replaces the weighted token loss. [all ranks, as above; called with grad on] Returns a
/// scalar on the batch's device: this micro-batch's sum divided by a count over all ranks and micro-batches of the step
/// (`Step::answer_tokens()` or `Step::pairs()`; an objective has no token heads, so `counts()` is empty). The sum of
/// these scalars is the step's loss.
class WMTP_SDK_API Objective {
 public:
  virtual ~Objective();
  virtual void options(Options&) {}
  virtual Needs needs() const = 0;
  virtual Tensor loss(ValueStep& step) = 0;
};

}  // namespace wmtp
