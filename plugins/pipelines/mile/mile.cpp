// mile: w = a (sigma + H)^gamma, with H the entropy of the policy's distribution, not differentiated, and a = 1 over
// the mean of (sigma + H)^gamma over the valid tokens of the head's micro-batch on all ranks, so that the mean weight
// is 1 (Su et al. 2023, "MiLe Loss", arXiv 2310.19531; sigma = gamma = 1 as there).
#include <wmtp/plugin.hpp>

namespace {

using wmtp::Signal;
using wmtp::Tensor;

class Mile : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override {
    o.scheduled("gamma", gamma_, "how fast the weight grows with the entropy", 0, 10);
    o.number("sigma", sigma_, "added to the entropy, so that a certain token still has a weight", 1e-3, 100);
  }
  wmtp::Needs needs() const override { return {.when = wmtp::When::head, .reads = {Signal::policy_entropy}}; }

  wmtp::Weights weigh(wmtp::HeadStep& step) override {
    const Tensor entropy = step.get(Signal::policy_entropy), valid = step.valid();
    const Tensor scale = (entropy.clamp_min(0) + sigma_).pow(gamma_.at(step.number())) * valid;
    const Tensor total = step.collectives().sum(at::stack({scale.sum(at::kDouble), valid.sum().to(at::kDouble)}));
    const Tensor mean = total[0] / total[1].clamp_min(1);
    step.metric("mile/entropy", entropy.sum(), valid.sum());
    // If no rank has a valid token, the mean is zero, and so is every weight.
    return wmtp::Weights::by_source((scale / mean.clamp_min(1e-30)).to(at::kFloat));
  }

 private:
  wmtp::Scheduled gamma_ = 1;
  double sigma_ = 1;
};

}  // namespace

WMTP_PIPELINE(Mile, "mile", "1.0", "tokens with high entropy have higher weights; the mean weight is 1")
