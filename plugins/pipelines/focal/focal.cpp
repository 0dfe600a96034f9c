// focal: w = (1 - p)^gamma with p = exp(-loss), the policy's probability of the token (Lin et al. 2017, "Focal Loss for
// Dense Object Detection", arXiv 1708.02002): tokens that are easy already count less. gamma = 0 is the baseline.
#include <wmtp/plugin.hpp>

namespace {

class Focal : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override { o.number("gamma", gamma_, "how fast easy tokens lose weight", 0, 10); }
  wmtp::Needs needs() const override { return {.when = wmtp::When::token, .reads = {{"policy", "loss"}}}; }
  wmtp::Weights weigh(wmtp::Step& step) override {
    const wmtp::Tensor probability = step.get({"policy", "loss"}).neg().exp();
    return wmtp::Weights::by_source((1 - probability).clamp_min(0).pow(gamma_));
  }

 private:
  double gamma_ = 2;
};

}  // namespace

WMTP_PIPELINE(Focal, "focal", "1.0", "tokens that are easy already count less")
