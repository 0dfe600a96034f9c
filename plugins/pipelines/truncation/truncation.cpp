// truncation: w = 1 where loss < t, else 0: drops the tokens with the highest loss, which include noise (Kang and
// Hashimoto 2020, "Improved Natural Language Generation via Loss Truncation", arXiv 2004.14589; there whole sequences).
//
// t is a running quantile per head: the first micro-batch's quantile(loss, 1 - drop) over the valid tokens of all
// ranks, then t <- t + momentum (quantile - t). A micro-batch is compared with t before its own update, so that a
// micro-batch of noise does not raise its own threshold; the first `warmup_steps` optimizer steps keep every token. A
// loss that is below t only by rounding is also dropped (wmtp::reaches), so that equal contexts stay together.
#include <limits>
#include <wmtp/plugin.hpp>

namespace {

using wmtp::Signal;
using wmtp::Tensor;

class Truncation : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override {
    o.scheduled("drop", drop_, "fraction of tokens to drop: those with the highest loss", 0, 0.999999);
    o.number("momentum", momentum_, "weight of a micro-batch's quantile in the running quantile", 1e-6, 1);
    o.integer("warmup_steps", warmup_steps_, "initial optimizer steps that keep every token", 1);
  }
  wmtp::Needs needs() const override { return {.when = wmtp::When::head, .reads = {Signal::policy_loss}}; }

  wmtp::Weights weigh(wmtp::HeadStep& step) override {
    const Tensor loss = step.get(Signal::policy_loss), valid = step.valid();
    const Tensor selected = keep(step, loss, valid).to(at::kFloat);
    step.metric("truncation/selection_ratio", selected.sum(), valid.sum());
    step.metric("truncation/ce_dropped", (loss * (valid.to(at::kFloat) - selected)).sum(),
                valid.sum() - selected.sum());
    return wmtp::Weights::by_source(selected);
  }

 private:
  Tensor keep(wmtp::HeadStep& step, const Tensor& loss, const Tensor& valid) const {
    const double drop = drop_.at(step.number());
    if (drop == 0) return valid;
    // Infinite until the head has had a valid token, which keeps every token.
    constexpr float none = std::numeric_limits<float>::infinity();
    Tensor& thresholds = step.state("threshold", at::full({step.heads()}, none, loss.options()));
    const Tensor before = thresholds[step.head() - 1].clone();
    const Tensor now = step.collectives().quantile(loss, valid, 1 - drop);
    const Tensor after = at::where(at::isinf(before), now, at::lerp(before, now, momentum_));
    thresholds[step.head() - 1].copy_(at::where(at::isnan(now), before, after));  // NaN: no valid token on any rank
    if (step.number() <= warmup_steps_) return valid;
    const Tensor known = at::isfinite(before);
    step.metric("truncation/threshold", at::where(known, before, 0), known);
    return wmtp::reaches(loss, before).logical_not().logical_and(valid);
  }

  wmtp::Scheduled drop_ = 0.1;
  double momentum_ = 0.1;
  int64_t warmup_steps_ = 10;
};

}  // namespace

WMTP_PIPELINE(Truncation, "truncation", "1.1", "drops the tokens whose loss is above a running quantile")
