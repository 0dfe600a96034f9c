// dft: w = p = exp(-loss), the policy's probability of the token, not differentiated ("dynamic fine-tuning", Wu et al.
// 2025, arXiv 2508.05629): the better the policy already predicts a token, the higher its weight.
#include <wmtp/plugin.hpp>

namespace {

class Dft : public wmtp::Weighting {
 public:
  wmtp::Needs needs() const override { return {.when = wmtp::When::token, .reads = {wmtp::Signal::policy_loss}}; }
  wmtp::Weights weigh(wmtp::TokenStep& step) override {
    return wmtp::Weights::by_source(step.get(wmtp::Signal::policy_loss).neg().exp());
  }
};

}  // namespace

WMTP_PIPELINE(Dft, "dft", "1.0", "weights each token by its probability under the policy")
