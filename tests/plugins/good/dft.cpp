// dft: w = p = exp(-loss), detached ("dynamic fine-tuning", arXiv 2508.05629). The smallest token-wise weighting.
#include <wmtp/plugin.hpp>

class Dft : public wmtp::Weighting {
 public:
  wmtp::Needs needs() const override { return {.when = wmtp::When::token, .reads = {{"policy", "loss"}}}; }
  wmtp::Weights weigh(wmtp::Step& step) override {
    return wmtp::Weights::by_source(step.get({"policy", "loss"}).neg().exp());
  }
};

WMTP_PIPELINE(Dft, "dft", "1.0", "a token counts by the policy's probability of it")
