// mean_excess: rho1's choice, made once for all heads. The tokens with the largest excess loss, as the mean over the
// heads that predict them, have the weight 1 in every head. With rho1 and first_head it tells what a choice for each
// head is worth.
//
//   score(t) = mean over heads k of  policy loss_k - reference loss_k  at the source t - offset(k)
//   w(t)     = 1 where score(t) >= quantile(score, 1 - keep), else 0
//
// Ties, keep over the run and the divisor are as in rho1. The quantile is over the tokens of a micro-batch on all ranks
// that at least one head predicts.
#include <wmtp/plugin.hpp>

#include "../shared/targets.hpp"

namespace {

using wmtp::Signal;
using wmtp::Tensor;

class MeanExcess : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override { o.scheduled("keep", keep_, "fraction of tokens to keep", 1e-6, 1); }

  wmtp::Needs needs() const override {
    return {.when = wmtp::When::all, .reads = {Signal::policy_loss, Signal::reference_loss}};
  }

  wmtp::Weights weigh(wmtp::BatchStep& step) override {
    const Tensor excess = step.get(Signal::policy_loss) - step.get(Signal::reference_loss);
    const Tensor counted = by_target(step, step.valid().to(at::kFloat)), heads = counted.sum(-1), valid = heads > 0;
    const double keep = keep_.at(step.number());
    Tensor kept = valid;
    if (keep < 1) {
      const Tensor mean = by_target(step, excess).sum(-1) / heads.clamp_min(1);
      kept = wmtp::reaches(mean, step.collectives().quantile(mean, valid, 1 - keep)).logical_and(valid);
    }
    const Tensor selected = kept.to(at::kFloat);
    step.metric("mean_excess/selection_ratio", (counted * selected.unsqueeze(-1)).sum(), counted.sum());
    return wmtp::Weights::by_target(selected, keep);
  }

 private:
  /// [B,S,H] by source as [B,S,H] by target, 0 where a head predicts nothing.
  static Tensor by_target(wmtp::BatchStep& step, const Tensor& of_sources) {
    std::vector<Tensor> heads;
    for (int64_t head = 1; head <= step.heads(); ++head)
      heads.push_back(targets::at_targets(of_sources.select(-1, head - 1), step.offset(head)));
    return at::stack(heads, -1);
  }

  wmtp::Scheduled keep_ = 0.6;
};

}  // namespace

WMTP_PIPELINE(MeanExcess, "mean_excess", "1.0",
              "keeps the same tokens in all heads, whose mean loss most exceeds a reference model's")
