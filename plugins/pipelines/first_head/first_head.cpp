// first_head: the weight that the inner weighting gives to a token in head 1 is its weight in every head. A control:
// does a weight for each head achieve more than one weight for each token?
//
//   w_k(s) = w_1(s + offset(k) - offset(1))    the weight of the same target
//
// The inner weighting sees head 1 only, and logs metrics only of it. Every target of a later head is one of head 1's.
#include <wmtp/plugin.hpp>

#include "../shared/targets.hpp"

namespace {

using wmtp::Tensor;
using wmtp::Weights;

class FirstHead : public wmtp::Wrapper {
 public:
  /// The other heads' sources are elsewhere in the sequence.
  wmtp::Needs needs() const override { return targets::with_whole_sequences(inner().needs()); }

  Weights weigh(wmtp::HeadStep& step) override {
    if (step.head() > 1) return of_others_;
    const Weights weights = inner().weigh(step);
    of_others_ = by_target(weights, weights.values, step);
    return weights;
  }

  Weights weigh(wmtp::BatchStep& step) override {
    const Weights weights = inner().weigh(step);
    const bool is_per_head = weights.meaning == Weights::Meaning::by_source;
    return by_target(weights, is_per_head ? weights.values.select(-1, 0) : weights.values, step);
  }

 private:
  /// The share of the targets that a later head predicts may be larger than that of head 1's.
  static Weights by_target(const Weights& weights, const Tensor& values, const wmtp::TokenStep& step) {
    if (weights.meaning == Weights::Meaning::uniform) return weights;
    if (weights.meaning == Weights::Meaning::by_target) return Weights::by_target(values);
    return Weights::by_target(targets::at_targets(values, step.offset(1)));
  }

  Weights of_others_;  ///< of this micro-batch, whose head 1 is weighed first
};

}  // namespace

WMTP_PIPELINE(FirstHead, "first_head", "1.0",
              "another weighting's weights of head 1, for the same tokens in every head")
