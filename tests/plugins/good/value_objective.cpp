// value_objective: mean of (value - target)^2 over the target tokens of all ranks and micro-batches.
#include <wmtp/plugin.hpp>

class ValueObjective : public wmtp::Objective {
 public:
  void options(wmtp::Options& o) override { o.number("target", target_, "what the value head should say everywhere"); }
  wmtp::Needs needs() const override {
    return {.values = {wmtp::ValueSignal::of_policy("return")}, .heads = {{"return"}}};
  }
  wmtp::Tensor loss(wmtp::ValueStep& step) override {
    const wmtp::Tensor valid = step.valid().to(at::kFloat);
    const wmtp::Tensor error = (step.leaf(wmtp::ValueSignal::of_policy("return")) - target_).square() * valid;
    const wmtp::Tensor count = step.answer_tokens().clamp_min(1).to(valid.options());
    step.metric("value/loss", error.detach().sum(), valid.sum());
    return error.sum() / count;
  }

 private:
  double target_ = 1;
};

WMTP_PIPELINE(ValueObjective, "value_objective", "1.0", "squared error of a value head")
