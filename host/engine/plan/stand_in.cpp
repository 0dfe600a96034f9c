#include "engine/plan/stand_in.hpp"

#include <utility>

namespace wmtp {
namespace {

/// Weighs every token alike.
class EveryToken final : public Weighting {
 public:
  explicit EveryToken(Needs needs) : needs_(std::move(needs)) {}
  Needs needs() const override { return needs_; }
  Weights weigh(TokenStep& step) override { return ones(step); }
  Weights weigh(HeadStep& step) override { return ones(step); }
  Weights weigh(BatchStep& step) override { return ones(step); }
  Tensor value_loss(ValueStep& step) override { return sum_of_values(needs_, step); }

  static Tensor sum_of_values(const Needs& needs, ValueStep& step) {
    Tensor sum;
    for (const ValueHead& head : needs.heads) {
      const Tensor of_head = step.leaf(ValueSignal::of_policy(head.name)).sum();
      sum = sum.defined() ? sum + of_head : of_head;
    }
    return sum;
  }

 private:
  static Weights ones(TokenStep& step) { return Weights::by_source(step.valid().to(at::kFloat)); }
  Needs needs_;
};

class SumOfValues final : public Objective {
 public:
  explicit SumOfValues(Needs needs) : needs_(std::move(needs)) {}
  Needs needs() const override { return needs_; }
  Tensor loss(ValueStep& step) override { return EveryToken::sum_of_values(needs_, step); }

 private:
  Needs needs_;
};

}  // namespace

ActivePipeline stand_in(const ActivePipeline& pipeline) {
  ActivePipeline other;
  other.name = pipeline.name;
  other.needs = pipeline.needs;
  other.reads_entropy = pipeline.reads_entropy;
  other.reference = pipeline.reference;
  other.value = pipeline.value;
  if (pipeline.objective)
    other.objective = std::make_unique<SumOfValues>(pipeline.needs);
  else
    other.weighting = std::make_unique<EveryToken>(pipeline.needs);
  return other;
}

}  // namespace wmtp
