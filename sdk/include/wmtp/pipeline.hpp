// Pipelines: a weighting says how much each token counts; an objective is a loss over leaves such as value heads.
// Both declare what they read and when they can be called, and the host computes that and no more.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <wmtp/options.hpp>
#include <wmtp/step.hpp>

namespace wmtp {

/// The earliest moment at which a weighting can answer. The later, the more the host must compute for it.
enum class When {
  token,   ///< elementwise in the token's own loss: called inside the loss, chunk by chunk, in one pass
  before,  ///< without the policy's losses: called once, before the heads; one pass
  head,    ///< needs the losses of one head: called once a head, after a pass for losses only
  all,     ///< needs the losses of all heads at once: called once, after a pass for losses over all heads
};

/// A value head on the policy's normed trunk output: one number a position, fp32, named `value:NAME` in reads. With
/// d the model's width, "linear" is d -> 1, "mlp" d -> d/4 -> d/8 -> 1 with GELU between; both with biases, the last
/// layer zero at the start.
struct ValueHead {
  std::string name;
  std::string kind = "linear";
  /// What it learns, kept with the saved model: "value", an expected outcome; or "score", which ranks answers to the same
  /// problem and is fixed only up to what is added to all of them, as by a loss over pairs.
  std::string meaning = "value";
};

/// What a pipeline needs of the host; asked once, after `options()`. [before start]
struct Needs {
  When when = When::before;
  std::vector<Read> reads = {};
  std::vector<ValueHead> heads = {};
  bool signed_weights = false;  ///< without it a negative weight is an error
  bool pairs = false;           ///< a right and a wrong answer to the same problem, in neighbouring rows; records only
  bool prompts = false;         ///< prompt tokens are targets too
  bool scores = false;          ///< of value.value differences alone count, so a head that learned scores will do too
};

/// Weights with their meaning; the shape alone never decides. fp32 on the batch's device, finite.
struct Weights {
  enum class Meaning { uniform, by_target, by_source };
  Meaning meaning = Meaning::uniform;
  Tensor values;

  static Weights uniform() { return {}; }
  /// [B,S]: the weight of the token AT a position, whichever head predicts it.
  static Weights by_target(Tensor values) { return {Meaning::by_target, std::move(values)}; }
  /// The weight of the loss AT a source position, shaped like `Step::valid()` of the same call.
  static Weights by_source(Tensor values) { return {Meaning::by_source, std::move(values)}; }
};

/// A weight on every token. [all ranks; one instance a rank; calls come from the training thread, with grad off]
class WMTP_SDK_API Weighting {
 public:
  virtual ~Weighting();
  virtual void options(Options&) {}
  virtual Needs needs() const = 0;
  virtual Weights weigh(Step& step) = 0;
  /// A loss of the value heads that `needs()` declares, trained beside the weighted token loss and added to it; called
  /// before `weigh` of the same micro-batch, with grad on. As Objective::loss.
  virtual Tensor value_loss(Step&) { return {}; }
};

/// A weighting over another one, that of the experiment's [pipeline.inner]: shuffled, clipped, mean-one. What the inner
/// one needs is in the outer one's `needs()`; the host calls the outer one only.
class WMTP_SDK_API Wrapper : public Weighting {
 public:
  ~Wrapper() override;
  /// [host only, after both have their options, before `needs()`]
  void wrap(Weighting& inner) { inner_ = &inner; }
  /// That of the inner one, whose value heads are trained under a wrapper too.
  Tensor value_loss(Step& step) override { return inner_->value_loss(step); }

 protected:
  Weighting& inner() const { return *inner_; }

 private:
  Weighting* inner_ = nullptr;
};

/// A loss over leaves, in place of the weighted token loss. [all ranks, as above; called with grad on]
/// Returns a scalar: this micro-batch's sum divided by a count over all ranks and micro-batches of the step
/// (`Step::answers()` or `Step::pairs()`; an objective has no token heads, so `counts()` is empty), so that the sum of
/// what it returned is the step's loss. The scalar is on the batch's device.
class WMTP_SDK_API Objective {
 public:
  virtual ~Objective();
  virtual void options(Options&) {}
  virtual Needs needs() const = 0;
  virtual Tensor loss(Step& step) = 0;
};

}  // namespace wmtp
