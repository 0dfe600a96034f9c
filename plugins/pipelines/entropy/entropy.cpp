// entropy: w = 1 where H >= quantile(H, 1 - share), else 0, with H the entropy of the policy's distribution: trains
// only on the tokens with the highest entropy (Wang et al. 2025, "Beyond the 80/20 Rule", arXiv 2506.01939; share = 0.2
// as there). The quantile is over the valid tokens of the head's micro-batch on all ranks; ties are kept, including
// those that differ by rounding (wmtp::reaches).
//
// That paper is about reinforcement learning: it masks policy gradients of answers that the policy has sampled and a
// verifier has judged. Here the same selection is applied to the next-token loss on given text, in pre-training or
// fine-tuning, for which the paper shows nothing.
#include <wmtp/plugin.hpp>

namespace {

using wmtp::Signal;
using wmtp::Tensor;

class Entropy : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override {
    o.scheduled("share", share_, "fraction of tokens to keep: those with the highest entropy", 1e-6, 1);
  }
  wmtp::Needs needs() const override { return {.when = wmtp::When::head, .reads = {Signal::policy_entropy}}; }

  wmtp::Weights weigh(wmtp::HeadStep& step) override {
    const Tensor entropy = step.get(Signal::policy_entropy), valid = step.valid();
    const Tensor threshold = step.collectives().quantile(entropy, valid, 1 - share_.at(step.number()));
    const Tensor selected = wmtp::reaches(entropy, threshold).logical_and(valid).to(at::kFloat);
    const Tensor any = at::isfinite(threshold);  // NaN: no valid token on any rank
    step.metric("entropy/threshold", at::where(any, threshold, 0), any);
    step.metric("entropy/selection_ratio", selected.sum(), valid.sum());
    step.metric("entropy/mean", entropy.sum(), valid.sum());
    step.metric("entropy/mean_selected", (entropy * selected).sum(), selected.sum());
    return wmtp::Weights::by_source(selected);
  }

 private:
  wmtp::Scheduled share_ = 0.2;
};

}  // namespace

WMTP_PIPELINE(Entropy, "entropy", "1.1", "keeps the tokens with the highest entropy")
