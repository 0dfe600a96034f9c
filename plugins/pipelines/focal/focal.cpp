// focal: w = (1 - p)^gamma with p = exp(-loss), the policy's probability of the token (Lin et al. 2017, "Focal Loss for
// Dense Object Detection", arXiv 1708.02002): easy tokens have lower weights. gamma = 0 is the baseline.
//
// Weights are not differentiated, whereas Lin et al. also differentiate (1 - p)^gamma: their gradient is
// 1 + gamma p (-ln p) / (1 - p) times that of this weight. For gamma = 2 this factor is 1 for p near 0, 1.5 at p = 0.1,
// 2.95 at 0.95 and 3 at 1. plugin = "formula" has their gradient with
// weight = "(1 - exp(-ce))^2 + 2 * (1 - exp(-ce)) * exp(-ce) * ce" (its logged loss is weight times loss, not theirs).
#include <wmtp/plugin.hpp>

namespace {

class Focal : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override {
    o.scheduled("gamma", gamma_, "exponent; larger values down-weight easy tokens more", 0, 10);
  }
  wmtp::Needs needs() const override { return {.when = wmtp::When::token, .reads = {wmtp::Signal::policy_loss}}; }
  wmtp::Weights weigh(wmtp::TokenStep& step) override {
    const wmtp::Tensor probability = step.get(wmtp::Signal::policy_loss).neg().exp();
    return wmtp::Weights::by_source((1 - probability).clamp_min(0).pow(gamma_.at(step.number())));
  }

 private:
  wmtp::Scheduled gamma_ = 2;
};

}  // namespace

WMTP_PIPELINE(Focal, "focal", "1.0", "down-weights tokens that are already easy")
