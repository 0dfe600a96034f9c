// frequency: w = ((f + smoothing) / f_max)^-power for a target token that has been a target f times so far in the run,
// on all ranks and with this micro-batch, and f_max of the token that has been it most often: rare tokens count more
// (common practice in machine translation, power 0.3 to 0.5). The weights are not normalised: the commonest token has
// about 1.
//
// Early on all counts are small, so the weights lie near 1 and apart by little (after n targets none exceeds n^power);
// they spread as the counts grow, and settle where the ratios of the counts do.
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

  wmtp::Weights weigh(wmtp::Step& step) override {
    const Tensor tokens = step.batch().tokens, counts = counted(step, tokens);
    const Tensor own = counts.index_select(0, tokens.flatten()).view_as(tokens);
    const Tensor relative = (own + smoothing_) / counts.max().clamp_min(1);
    return wmtp::Weights::by_target(at::where(is_target(step), relative.pow(-power_), 1).to(at::kFloat));
  }

 private:
  /// [B,S] bool: whether the first head predicts the token at a position, which each token is once at most.
  static Tensor is_target(wmtp::Step& step) {
    const Tensor valid = step.valid().select(-1, 0);
    return at::cat({at::zeros_like(valid.narrow(1, 0, 1)), valid.narrow(1, 0, valid.size(1) - 1)}, 1);
  }

  /// [vocab_size] fp64, whole numbers: exact in any order of adding.
  static Tensor counted(wmtp::Step& step, const Tensor& tokens) {
    const Tensor none = at::zeros({step.vocab_size()}, tokens.options().dtype(at::kDouble));
    const Tensor here = none.scatter_add(0, tokens.flatten(), is_target(step).flatten().to(at::kDouble));
    return step.state("counts", none).add_(step.across().sum(here));
  }

  double power_ = 0.4, smoothing_ = 1;
};

}  // namespace

WMTP_PIPELINE(Frequency, "frequency", "1.0", "rare tokens count more")
