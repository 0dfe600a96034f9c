// critic: trains a value head on answers labelled right or wrong; prompts are excluded.
//
//   pairwise       -log sigmoid(mean V of the right answer - mean V of the wrong one - margin), over pairs of answers
//                  to the same problem, divided by the step's pairs (Bradley and Terry 1952; Ouyang et al. 2022, arXiv
//                  2203.02155). V is a score: adding a constant to V of both answers does not change the loss, so
//                  sigmoid(V) is not a probability. `center` adds center * (mean V of the right answer + mean V of the
//                  wrong one)^2, which keeps the scores around 0 (Eisenstein et al. 2023, arXiv 2312.09244, equation
//                  2); off by default, recommended 0.01, both as in TRL
//   lambda_return  V_t against a return that includes later values (Peng et al. 2019, arXiv 1910.00177)
//   monte_carlo    V_t against gamma^(T - t) if the answer is right, else 0
//
// V_t is defined after token t. ../shared/values.hpp defines the returns and their normalization.
#include "../shared/values.hpp"

namespace {

using wmtp::Tensor;

class Critic : public wmtp::Objective {
 public:
  void options(wmtp::Options& o) override {
    o.text("head", head_, "linear: d -> 1; mlp: d -> d/4 -> d/8 -> 1", {"linear", "mlp"});
    o.number("dropout", dropout_, "probability with which training drops an input of the head's layers", 0, 0.99);
    o.text("loss", loss_, "pairwise ranks a right answer above a wrong one; the others predict the outcome",
           {"pairwise", "lambda_return", "monte_carlo"});
    o.number("margin", margin_, "pairwise: margin by which a right answer should score higher", 0, 100);
    o.number("center", center_, "pairwise: coefficient of the penalty that keeps scores around 0; for example 0.01", 0,
             100);
    o.number("gamma", regression_.gamma, "discount per token", 0, 1);
    o.number("lambda", regression_.lambda, "lambda_return: 1 uses only the outcome, 0 only the next value", 0, 1);
    regression_.error_options(o);
    refuse_unused(o);
  }

  wmtp::Needs needs() const override {
    return {.when = wmtp::When::before,
            .values = {wmtp::ValueSignal::of_policy("value")},
            .heads = {{"value", head_, loss_ == "pairwise" ? "score" : "value", dropout_}},
            .pairs = loss_ == "pairwise"};
  }

  Tensor loss(wmtp::ValueStep& step) override {
    const Tensor values = step.leaf(wmtp::ValueSignal::of_policy("value"));
    return loss_ == "pairwise" ? pairwise(step, values) : regression_.loss(step, values, loss_ == "monte_carlo");
  }

 private:
  void refuse_unused(const wmtp::Options& o) const {
    const std::string reason = "it has no effect with loss = \"" + loss_ + "\"";
    if (loss_ == "pairwise")
      for (const char* name : {"gamma", "lambda", "error", "huber_delta"}) o.refuse(name, reason);
    if (loss_ != "pairwise")
      for (const char* name : {"margin", "center"}) o.refuse(name, reason);
    if (loss_ == "monte_carlo") o.refuse("lambda", reason);
  }

  Tensor pairwise(wmtp::ValueStep& step, const Tensor& values) const {
    const wmtp::Batch& batch = step.batch();
    const Tensor answers = values::answers_of(batch);
    const Tensor mean = (values * answers).sum(1) / answers.sum(1).clamp_min(1);
    const Tensor right = batch.correct.eq(1).logical_and(batch.partner.ge(0)).to(at::kFloat);
    const Tensor of_partner = mean.index_select(0, batch.partner.clamp_min(0)), gap = mean - of_partner;
    const Tensor away = center_ * (mean + of_partner).square();
    const Tensor sum = ((away - at::log_sigmoid(gap - margin_)) * right).sum();
    step.metric("value/loss", sum.detach(), right.sum());
    report_pairs(step, mean.detach(), gap.detach(), right);
    values::report_values(step, values.detach(), answers);
    return sum / step.pairs().clamp_min(1);
  }

  static void report_pairs(wmtp::ValueStep& step, const Tensor& mean, const Tensor& gap, const Tensor& right) {
    const Tensor pairs = right.sum();
    step.metric("pair/accuracy", (gap > 0).mul(right).sum(), pairs);
    step.metric("pair/margin", (gap * right).sum(), pairs);
    step.metric("pair/mean_right", (mean * right).sum(), pairs);
    step.metric("pair/mean_wrong", ((mean - gap) * right).sum(), pairs);
  }

  std::string head_ = "linear", loss_ = "pairwise";
  double dropout_ = 0, margin_ = 0, center_ = 0;
  values::Regression regression_;
};

}  // namespace

WMTP_PIPELINE(Critic, "critic", "1.1", "trains a value head on right and wrong answers")
