// random_control: keeps a random share of the tokens, the control of every selection: w = 1[uniform < keep].
#include <wmtp/plugin.hpp>

class RandomControl : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override { o.number("keep", keep_, "share of the tokens that is kept", 0, 1); }
  wmtp::Needs needs() const override { return {.when = wmtp::When::before}; }
  wmtp::Weights weigh(wmtp::Step& step) override {
    const wmtp::Tensor selected = step.uniform(0).lt(keep_).logical_and(step.valid());
    step.metric("control/selection_ratio", selected.sum(), step.valid().sum());
    return wmtp::Weights::by_source(selected.to(at::kFloat));
  }

 private:
  double keep_ = 0.6;
};

WMTP_PIPELINE(RandomControl, "random_control", "1.0", "keeps a random share of the tokens")
