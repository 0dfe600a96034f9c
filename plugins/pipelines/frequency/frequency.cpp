// frequency: w = ((f + smoothing) / f_max)^-power for a target token that has been a target f times so far in the run,
// on all ranks and including this micro-batch; f_max is the largest such count: rare tokens have higher weights (common
// practice in machine translation, power 0.3 to 0.5). The weights are not normalized: the most common token has about
// 1.
//
// At first all counts are small, so the weights are close to 1 and to each other (after n targets none exceeds
// n^power); they spread as the counts grow, and converge with the ratios of the counts.
#include <wmtp/plugin.hpp>

namespace {

using wmtp::Tensor;

class Frequency : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override {
    o.number("power", power_, "how fast the weight falls with the frequency; 0 is the baseline", 0, 2);
    o.number("smoothing", smoothing_, "added to every count", 0, 1e6);
  }
  wmtp::Needs needs() const override { return {.when = wmtp::When::before}; }

  wmtp::Weights weigh(wmtp::BatchStep& step) override {
    const Tensor tokens = step.batch().tokens, counts = counted(step, tokens);
    const Tensor own = counts.index_select(0, tokens.flatten()).view_as(tokens);
    const Tensor relative = (own + smoothing_) / counts.max().clamp_min(1);
    return wmtp::Weights::by_target(at::where(is_target(step), relative.pow(-power_), 1).to(at::kFloat));
  }

 private:
  /// [B,S] bool: whether the first head predicts the token at a position, so that each token is counted at most once.
  static Tensor is_target(wmtp::BatchStep& step) {
    const Tensor valid = step.valid().select(-1, 0);
    return at::cat({at::zeros_like(valid.narrow(1, 0, 1)), valid.narrow(1, 0, valid.size(1) - 1)}, 1);
  }

  /// [vocab_size] fp64, integers: exact in any order of addition.
  static Tensor counted(wmtp::BatchStep& step, const Tensor& tokens) {
    const Tensor none = at::zeros({step.vocab_size()}, tokens.options().dtype(at::kDouble));
    const Tensor here = none.scatter_add(0, tokens.flatten(), is_target(step).flatten().to(at::kDouble));
    return step.state("counts", none).add_(step.collectives().sum(here));
  }

  double power_ = 0.4, smoothing_ = 1;
};

}  // namespace

WMTP_PIPELINE(Frequency, "frequency", "1.0", "rare tokens have higher weights")
